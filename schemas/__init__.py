"""What is read and written: records, their Avro schemas and codecs, match ids."""
