/* Values to rows. */
#include "loops.h"

/* What is done with one field after the other, as schemas/program.py writes it down: a code and a
 * little-endian number of four bytes. */
enum {
    SKIP_BOOLEAN, SKIP_INT, SKIP_LONG, SKIP_BYTES, SKIP_STRING,
    SKIP_FIXED, /* so many bytes */
    SKIP_ENUM,  /* of so many symbols */
    UNION,      /* of so many branches, each the one step that follows */
    TAKE_ID,
    TAKE_TIME,  /* and note it as the first, second or third */
    TAKE_KIND,
};
enum { STEP_SIZE = 5, TIMES = 3, UNKNOWN_KIND = 255 };

/* How to read the records of one schema. The pointers are into objects that the caller holds. */
typedef struct {
    const uint8_t *header, *steps, *kinds;
    Py_ssize_t header_size, steps_size, kinds_size;
    int64_t sources[TIMES]; /* Which of the noted times are end, start and ts, */
    int64_t scales[TIMES];  /* and what they are multiplied by. */
} Program;

/* What was read of one value. */
typedef struct {
    int64_t times[TIMES];
    const uint8_t *id;
    Py_ssize_t id_size;
    int kind;
} Found;

static uint32_t argument_of(const uint8_t *step)
{
    return step[1] | (uint32_t)step[2] << 8 | (uint32_t)step[3] << 16 | (uint32_t)step[4] << 24;
}

/* Whether no value can lead these steps astray. */
static int are_steps(const uint8_t *steps, Py_ssize_t size)
{
    int ids = 0;
    if (size % STEP_SIZE)
        return 0;
    for (Py_ssize_t at = 0; at < size; at += STEP_SIZE) {
        uint8_t code = steps[at];
        uint32_t argument = argument_of(steps + at);
        if (code > TAKE_KIND || (code == TAKE_TIME && argument >= TIMES))
            return 0;
        ids += code == TAKE_ID;
        if (code != UNION)
            continue;
        if (argument > (uint32_t)((size - at) / STEP_SIZE) - 1)
            return 0;
        for (; argument > 0; argument--) {
            at += STEP_SIZE;
            if (steps[at] >= UNION)
                return 0;
        }
    }
    return ids == 1;
}

/* (header, steps, kinds, sources, scales) of Python's; raises ValueError. */
static int program_of(PyObject *object, Program *program)
{
    if (!PyTuple_Check(object) || PyTuple_GET_SIZE(object) != 5
        || !bytes_of(PyTuple_GET_ITEM(object, 0), &program->header, &program->header_size)
        || !bytes_of(PyTuple_GET_ITEM(object, 1), &program->steps, &program->steps_size)
        || !bytes_of(PyTuple_GET_ITEM(object, 2), &program->kinds, &program->kinds_size)
        || !is_tuple(PyTuple_GET_ITEM(object, 3), TIMES)
        || !is_tuple(PyTuple_GET_ITEM(object, 4), TIMES)
        || !are_steps(program->steps, program->steps_size))
        goto unfit;
    for (int at = 0; at < TIMES; at++) {
        PyObject *sources = PyTuple_GET_ITEM(object, 3), *scales = PyTuple_GET_ITEM(object, 4);
        if (!number_of(PyTuple_GET_ITEM(sources, at), &program->sources[at])
            || !number_of(PyTuple_GET_ITEM(scales, at), &program->scales[at])
            || program->sources[at] < 0 || program->sources[at] >= TIMES)
            goto unfit;
    }
    return 1;
unfit:
    PyErr_SetString(PyExc_ValueError, "no program");
    return 0;
}

typedef struct {
    Program *first;
    Py_ssize_t count;
} Programs;

/* Raises ValueError or MemoryError; `first` is to be freed in any case. */
static int read_programs(PyObject *tuple, Programs *programs)
{
    programs->count = PyTuple_GET_SIZE(tuple);
    programs->first = PyMem_Calloc((size_t)programs->count + 1, sizeof(Program));
    if (programs->first == NULL)
        PyErr_NoMemory();
    for (Py_ssize_t at = 0; programs->first != NULL && at < programs->count; at++)
        if (!program_of(PyTuple_GET_ITEM(tuple, at), &programs->first[at]))
            return 0;
    return programs->first != NULL;
}

/* Takes up so many bytes, if they are there. */
static const uint8_t *taken(Cursor *cursor, int64_t size)
{
    const uint8_t *at = cursor->at;
    if (size < 0 || size > cursor->end - at)
        return NULL;
    cursor->at += size;
    return at;
}

static int is_utf8(const uint8_t *bytes, Py_ssize_t size)
{
    uint8_t all = 0;
    for (Py_ssize_t at = 0; at < size; at++)
        all |= bytes[at];
    if (all < 128)
        return 1;
    PyObject *text = PyUnicode_DecodeUTF8((const char *)bytes, size, NULL);
    if (text == NULL)
        PyErr_Clear();
    Py_XDECREF(text);
    return text != NULL;
}

/* Passes over one datum, as the functions `_skip_...` in schemas/reader.py. */
static int skip(const uint8_t *step, Cursor *cursor)
{
    int64_t number;
    const uint8_t *bytes;
    switch (*step) {
    case SKIP_BOOLEAN:
        return (bytes = taken(cursor, 1)) != NULL && *bytes <= 1;
    case SKIP_INT:
        return read_long(cursor, INT_BYTES_MAX, &number) && number >= INT32_MIN
            && number <= INT32_MAX;
    case SKIP_LONG:
        return read_long(cursor, LONG_BYTES_MAX, &number);
    case SKIP_BYTES:
        return read_long(cursor, LONG_BYTES_MAX, &number) && taken(cursor, number) != NULL;
    case SKIP_STRING:
        return read_long(cursor, LONG_BYTES_MAX, &number)
            && (bytes = taken(cursor, number)) != NULL && is_utf8(bytes, (Py_ssize_t)number);
    case SKIP_FIXED:
        return taken(cursor, argument_of(step)) != NULL;
    case SKIP_ENUM:
        return read_long(cursor, LONG_BYTES_MAX, &number) && number >= 0
            && number < argument_of(step);
    default:
        return 0;
    }
}

/* Goes through one record, header and all; 0 is a doubt. */
static int read_record(const Program *program, Cursor cursor, Found *found)
{
    const uint8_t *step = program->steps, *end = step + program->steps_size;
    int64_t number;
    cursor.at += program->header_size;
    found->kind = INSERT;
    for (; step < end; step += STEP_SIZE) {
        switch (*step) {
        case TAKE_ID:
            if (!read_long(&cursor, LONG_BYTES_MAX, &number)
                || (found->id = taken(&cursor, number)) == NULL)
                return 0;
            found->id_size = (Py_ssize_t)number;
            break;
        case TAKE_TIME:
            if (!read_long(&cursor, LONG_BYTES_MAX, &found->times[argument_of(step)]))
                return 0;
            break;
        case TAKE_KIND:
            if (!read_long(&cursor, LONG_BYTES_MAX, &number) || number < 0
                || number >= program->kinds_size || program->kinds[number] == UNKNOWN_KIND)
                return 0;
            found->kind = program->kinds[number];
            break;
        case UNION:
            if (!read_long(&cursor, LONG_BYTES_MAX, &number) || number < 0
                || number >= argument_of(step)
                || !skip(step + STEP_SIZE * (1 + number), &cursor))
                return 0;
            step += STEP_SIZE * (Py_ssize_t)argument_of(step);
            break;
        default:
            if (!skip(step, &cursor))
                return 0;
        }
    }
    return cursor.at == cursor.end;
}

static int begins_with(const Cursor *cursor, const Program *program)
{
    return cursor->end - cursor->at >= program->header_size
        && memcmp(cursor->at, program->header, (size_t)program->header_size) == 0;
}

/* The parts of a value; NULL without an exception is a doubt. */
static PyObject *parts_of(PyObject *value, const Programs *programs)
{
    Found found = {{0, 0, 0}, NULL, 0, 0};
    int64_t times[TIMES];
    Cursor cursor;
    Py_ssize_t size;
    if (!bytes_of(value, &cursor.at, &size))
        return NULL;
    cursor.end = cursor.at + size;
    const Program *program = programs->first, *end = program + programs->count;
    while (program < end && !begins_with(&cursor, program))
        program++;
    if (program == end || !read_record(program, cursor, &found))
        return NULL;
    for (int which = 0; which < TIMES; which++)
        if (__builtin_mul_overflow(found.times[program->sources[which]],
                                   program->scales[which], &times[which]))
            return NULL;
    PyObject *id = PyUnicode_DecodeUTF8((const char *)found.id, found.id_size, NULL);
    if (id == NULL) {
        if (PyErr_ExceptionMatches(PyExc_UnicodeDecodeError))
            PyErr_Clear();
        return NULL;
    }
    PyObject *parts[ROW_SIZE] = {
        PyLong_FromLongLong(times[0]), PyLong_FromLongLong(times[1]), id,
        PyLong_FromLongLong(times[2]), PyLong_FromLong(found.kind), Py_NewRef(value),
    };
    PyObject *tuple = tuple_of(parts, ROW_SIZE);
    return tuple == NULL ? NULL : untracked(tuple);
}

/* decode(programs, values, doubtful): the parts of each value, or what `doubtful(value)` says.
 * See schemas/extractor.py. */
PyObject *decode(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t nargs)
{
    Programs programs;
    if (nargs != 3 || !PyTuple_CheckExact(args[0])) {
        PyErr_SetString(PyExc_TypeError, "decode(programs, values, doubtful)");
        return NULL;
    }
    PyObject *found = NULL;
    PyObject *values = PySequence_Fast(args[1], "values are iterable");
    if (read_programs(args[0], &programs) && values != NULL)
        found = PyList_New(0);
    for (Py_ssize_t at = 0; found != NULL && at < PySequence_Fast_GET_SIZE(values); at++) {
        PyObject *value = Py_NewRef(PySequence_Fast_GET_ITEM(values, at));
        PyObject *parts = parts_of(value, &programs);
        if (parts == NULL && !PyErr_Occurred())
            parts = PyObject_CallOneArg(args[2], value);
        Py_DECREF(value);
        if (append(found, parts) < 0)
            Py_CLEAR(found);
    }
    Py_XDECREF(values);
    PyMem_Free(programs.first);
    return found;
}
