"""From the text of an expression to its tree: a scan of the source, cel-python's grammar, and the nodes of the tree."""
