"""Language server: requests of editors, answered as JSON of the Language Server Protocol.

`service.Service` handles requests and notifications as plain data: `server` passes them over stdio, a browser calls
it directly. Only `server` needs a library (pygls).
"""
