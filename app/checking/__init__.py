"""`check`: the output topic against a batch join over what the job has read, in DuckDB.

A batch join knows no watermark. What was late, in conflict or too large is taken from the rejects
topic; what became of the rest of an id's records follows from their order, see
`app.checking.fates`.
"""
