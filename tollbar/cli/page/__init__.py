"""A report as one page of HTML, which works from a file and asks nobody for anything.

    rendering.write(path, simulated.page(...))       what became of the Pods of `tollbar simulate`
    rendering.write(path, explained.page(...))       why a Pod waits, of `tollbar explain pod`

What is known is made into a `values.Page` first, which is text and numbers: what it has is decided and bounded there,
and what is left out is said there.  The template only shows it.
"""
