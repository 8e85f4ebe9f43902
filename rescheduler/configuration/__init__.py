"""The configuration of the controller. Pure: texts are handed in.

``document`` reads a text into one Struct, whose sections are Structs of the packages that use them (``model.written``);
``live`` says what a running process takes of a newer one, ``start_only`` what it does not take.
"""
