"""A report as one page of HTML, which is opened from a file and loads nothing.

    rendering.write(path, simulated.page(...))       what became of the Pods of `tollbar simulate`
    rendering.write(path, explained.page(...))       why a Pod waits, of `tollbar explain pod`

The data become a `values.Page` first, which has only texts and numbers, is bounded, and says what is left out.  The
template only shows it.
"""
