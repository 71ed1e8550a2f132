"""Language server that answers editors' requests in the Language Server Protocol.

`language_server.LanguageServer` handles requests and notifications as plain data. `stdio_server` exchanges them over
stdio, and a browser calls the class directly. Only `stdio_server` needs a library (pygls).
"""
