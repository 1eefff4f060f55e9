"""`doctor`: whether a job can run on this cluster, and whether its inputs can meet.

Facts are gathered by `app.kafka.inspection` and `app.doctor.sample`; what they mean is decided by
functions that know no Kafka, one module for each kind of question.
"""
