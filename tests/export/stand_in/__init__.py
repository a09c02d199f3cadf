"""A stand-in for `tensorflow_model_server`, for tests on machines that have none.

It is no server for any other use. What is real in it: TensorFlow's C++ loader and session
(XLA off, as in TF Serving), the scheduler of TF Serving's batching (TensorFlow's
`BatchFunction` op), and the generated gRPC services of `tensorflow-serving-api`. What is
imitated: the REST routes and their JSON, the watching of folders, and the flags.
"""
