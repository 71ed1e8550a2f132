"""Language server, which answers the requests of editors as JSON of the Language Server Protocol.

`language_server.LanguageServer` handles requests and notifications as plain data. `stdio_server` exchanges them over
stdio, and a browser calls the class directly. Only `stdio_server` needs a library (pygls).
"""
