"""Language server: requests of editors, answered as JSON of the Language Server Protocol.

`language_server.LanguageServer` handles requests and notifications as plain data: `stdio_server` passes them over
stdio, a browser calls it directly. Only `stdio_server` needs a library (pygls).
"""
