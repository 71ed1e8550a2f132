"""What editors ask for, answered in the Language Server Protocol's own JSON; only `server` needs a library.

`service.Service` takes requests and notifications as plain data: over stdio they come through `server`, in a
browser they are handed over as they are.
"""
