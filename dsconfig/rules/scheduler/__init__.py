"""The scheduler section: its type, the params of that type, what they make of the optimizer's."""
