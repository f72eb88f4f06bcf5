"""What the HTTP API takes and answers, as types shared by server and client."""
