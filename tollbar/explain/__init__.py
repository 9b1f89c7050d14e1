"""Answers to a person's questions about a Pod, a claim, a rule or a Node: why it is as it is, and what would change it.

The facts are a copy of the cluster (`tollbar.offline`) and the Events about the object; an explanation is a value that
is made of them without asking anybody; `text` makes lines of it.  What is decided is decided by the engine on the copy,
also what would be if something were different: nothing is guessed.
"""
