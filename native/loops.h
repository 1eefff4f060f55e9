/* What the compiled loops have in common: Python's objects, bytes, and Avro's numbers.
 *
 * Rules of all of them: every byte of a value is read behind a look at where the value ends. Sizes
 * are compared with what is left, never added to a pointer first. Numbers are 64 bits; where one
 * could become larger that is a doubt. An object that Python code might let go of while it runs (in
 * `doubtful`) is held. Only exact ints, strings, bytes and tuples are looked into.
 */
#ifndef SPANJOIN_NATIVE_LOOPS_H
#define SPANJOIN_NATIVE_LOOPS_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* The functions of the module, each described at its definition; nobody else sees their names. */
#pragma GCC visibility push(hidden)
PyObject *decode(PyObject *module, PyObject *const *args, Py_ssize_t nargs);
PyObject *arrive(PyObject *module, PyObject *const *args, Py_ssize_t nargs);
PyObject *decide(PyObject *module, PyObject *const *args, Py_ssize_t nargs);
PyObject *matches(PyObject *module, PyObject *const *args, Py_ssize_t nargs);
PyObject *groups(PyObject *module, PyObject *const *args, Py_ssize_t nargs);
PyObject *pack(PyObject *module, PyObject *rows);
PyObject *unpack(PyObject *module, PyObject *packed);
PyObject *tally(PyObject *module, PyObject *entries);
PyObject *mark(PyObject *module, PyObject *const *args, Py_ssize_t nargs);
PyObject *screen(PyObject *module, PyObject *const *args, Py_ssize_t nargs);
PyObject *parse(PyObject *module, PyObject *entries);
PyObject *place(PyObject *module, PyObject *const *args, Py_ssize_t nargs);
PyObject *prefixes(PyObject *module, PyObject *const *args, Py_ssize_t nargs);
PyObject *sweep(PyObject *module, PyObject *const *args, Py_ssize_t nargs);
PyObject *expire(PyObject *module, PyObject *const *args, Py_ssize_t nargs);
PyObject *remove_windows(PyObject *module, PyObject *const *args, Py_ssize_t nargs);

/* An attribute with a slot of its own, and where objects of the type that was met last have it. */
typedef struct {
    PyObject *name;
    PyTypeObject *type;
    Py_ssize_t offset;
} Slot;

/* Those of a side, and of a shelf. Returns 0, or -1 with an exception and nothing to be given back.
 */
typedef struct {
    Slot last, used, shelves, bits, longest, rows;
} Slots;
int take_slots(Slots *slots);
void give_slots(Slots *slots);
/* Where an object has the attribute; NULL is a doubt. */
PyObject **slot_of(PyObject *owner, Slot *slot);

/* Rows that overlap: not held, so before any code of Python's runs they must be. */
typedef struct {
    PyObject **rows;
    Py_ssize_t size, room;
} Met;

/* Puts a row, a tuple of ROW_SIZE, into a side: 1; 0 is a doubt, with nothing changed; -1 an
 * exception. */
int put_row(PyObject *side, PyObject *row, Slots *slots);
/* Finds the live rows of a side that share a moment with [start, end]: 1; 0 is a doubt. */
int overlapping(PyObject *side, int64_t start, int64_t end, Slots *slots, Met *met);
#pragma GCC visibility pop

/* A row, and the parts of a record: (end, start, id, ts, kind or flags, value). */
enum { END, START, ID, TS, KIND, VALUE, ROW_SIZE };
/* A record that waits, and one whose row is new: (rank, side, offset, key, row, source). */
enum { RANK, SIDE, OFFSET, KEY, ROW, SOURCE, ARRIVAL_SIZE };

/* A side of more rows is kept on shelves, see state/side.py. */
enum { FEW = 16 };

enum { INSERT = 0, LIVE = 0, LONG_BYTES_MAX = 10, INT_BYTES_MAX = 5, HEADER_MAX = 32 };

/* ---- Python's objects --------------------------------------------------------------------- */

/* How many digits an int has, and which; -1 is a negative one, or one of a Python whose ints look
 * otherwise. A record has some twenty numbers looked at, and Python's own look is a call for each. */
static inline Py_ssize_t digits_of(PyObject *object, const digit **digits)
{
#if PY_VERSION_HEX < 0x030C0000
    *digits = ((PyLongObject *)object)->ob_digit;
    return Py_SIZE(object) < 0 ? -1 : Py_SIZE(object);
#elif PY_VERSION_HEX < 0x030F0000
    uintptr_t tag = ((PyLongObject *)object)->long_value.lv_tag;
    *digits = ((PyLongObject *)object)->long_value.ob_digit;
    return tag & 2 ? -1 : (Py_ssize_t)(tag >> 3);
#else
    *digits = NULL;
    return object == NULL ? 0 : -1;
#endif
}

/* Whether it is an int of 64 bits, and which. */
static inline int number_of(PyObject *object, int64_t *number)
{
    const digit *digits;
    int overflow;
    if (!PyLong_CheckExact(object))
        return 0;
    switch (digits_of(object, &digits)) {
    case 0:
        *number = 0;
        return 1;
    case 1:
        *number = digits[0];
        return 1;
    case 2:
        *number = (int64_t)digits[1] << PyLong_SHIFT | digits[0];
        return 1;
    }
    *number = PyLong_AsLongLongAndOverflow(object, &overflow);
    return !overflow;
}

static inline int is_tuple(PyObject *object, Py_ssize_t size)
{
    return PyTuple_CheckExact(object) && PyTuple_GET_SIZE(object) == size;
}

/* A row of numbers, a string and bytes holds nothing that could hold it: the garbage collector
 * need not look at it. Python finds that out by itself, each time at the first collection. */
static inline PyObject *untracked(PyObject *tuple)
{
    PyObject_GC_UnTrack(tuple);
    return tuple;
}

static inline int bytes_of(PyObject *object, const uint8_t **bytes, Py_ssize_t *size)
{
    if (!PyBytes_CheckExact(object))
        return 0;
    *bytes = (const uint8_t *)PyBytes_AS_STRING(object);
    *size = PyBytes_GET_SIZE(object);
    return 1;
}

/* A new tuple that takes over these references; NULL, with all of them given up, on any NULL. */
static inline PyObject *tuple_of(PyObject **items, Py_ssize_t count)
{
    int whole = 1;
    for (Py_ssize_t at = 0; at < count; at++)
        whole &= items[at] != NULL;
    PyObject *tuple = whole ? PyTuple_New(count) : NULL;
    for (Py_ssize_t at = 0; at < count; at++) {
        if (tuple != NULL)
            PyTuple_SET_ITEM(tuple, at, items[at]);
        else
            Py_XDECREF(items[at]);
    }
    return tuple;
}

/* Appends and gives up the reference; -1 with an exception where there is nothing to append. */
static inline int append(PyObject *list, PyObject *item)
{
    if (item == NULL)
        return -1;
    int failed = PyList_Append(list, item);
    Py_DECREF(item);
    return failed;
}

/* So many numbers; 0 with an exception. */
static inline int read_numbers(PyObject *tuple, int64_t *numbers, Py_ssize_t count)
{
    if (!is_tuple(tuple, count)) {
        PyErr_Format(PyExc_TypeError, "expected %zd numbers", count);
        return 0;
    }
    for (Py_ssize_t at = 0; at < count; at++) {
        numbers[at] = PyLong_AsLongLong(PyTuple_GET_ITEM(tuple, at));
        if (numbers[at] == -1 && PyErr_Occurred())
            return 0;
    }
    return 1;
}

/* A text in UTF-8. `held` is what has to be given up after its use, or NULL. A string's own copy
 * of its UTF-8 would stay with the row for as long as that lives, so it is not asked for. */
typedef struct {
    const char *bytes;
    Py_ssize_t size;
    PyObject *held;
} Text;

static inline int text_of(PyObject *object, Text *text)
{
    text->held = NULL;
    if (!PyUnicode_CheckExact(object))
        return 0;
    if (PyUnicode_IS_ASCII(object)) {
        text->bytes = (const char *)PyUnicode_1BYTE_DATA(object);
        text->size = PyUnicode_GET_LENGTH(object);
        return 1;
    }
    text->held = PyUnicode_AsUTF8String(object);
    if (text->held == NULL) {
        PyErr_Clear(); /* A lone surrogate: Python's version raises the same again. */
        return 0;
    }
    text->bytes = PyBytes_AS_STRING(text->held);
    text->size = PyBytes_GET_SIZE(text->held);
    return 1;
}

static inline char *put(char *at, const void *bytes, Py_ssize_t size)
{
    memcpy(at, bytes, (size_t)size);
    return at + size;
}

static inline char *put_text(char *at, const char *text)
{
    return put(at, text, (Py_ssize_t)strlen(text));
}

/* ---- What is valid, see app/validity.py ---------------------------------------------------- */

enum { LOW, HIGH, LENGTH_MAX, LATEST, LIMITS };

typedef struct {
    int64_t end, start, ts;
} Times;

/* Whether these are the parts of a valid INSERT, and its times; 0 is a doubt. */
static inline int is_insert(PyObject *parts, const int64_t *limits, Times *times)
{
    int64_t kind;
    return is_tuple(parts, ROW_SIZE) && number_of(PyTuple_GET_ITEM(parts, KIND), &kind)
        && kind == INSERT && number_of(PyTuple_GET_ITEM(parts, END), &times->end)
        && number_of(PyTuple_GET_ITEM(parts, START), &times->start)
        && number_of(PyTuple_GET_ITEM(parts, TS), &times->ts) && limits[LOW] <= times->start
        && times->start <= times->ts && times->ts <= times->end && times->end <= limits[HIGH]
        && (uint64_t)times->end - (uint64_t)times->start <= (uint64_t)limits[LENGTH_MAX]
        && times->ts <= limits[LATEST];
}

/* ---- Stored rows, see state/keys.py ---------------------------------------------------------- */

/* A row's name: a byte, bucket and side; the key's length, the key; end, start and id. */
enum { BUCKET_AT = 1, SIDE_AT = 9, LENGTH_AT = 10, KEY_AT = 14, INTERVAL_BYTES = 16 };
/* Its value: flags, ts, and the input's bytes. */
enum { FLAGS_AT = 0, TS_AT = 1, VALUE_AT = 9 };
enum { ROW_MARKER = 1 };

static inline uint64_t read_big(const uint8_t *at, int bytes)
{
    uint64_t number = 0;
    while (bytes--)
        number = number << 8 | *at++;
    return number;
}

static inline char *put_big(char *at, uint64_t number, int bytes)
{
    for (int shift = 8 * (bytes - 1); shift >= 0; shift -= 8)
        *at++ = (char)(number >> shift);
    return at;
}

/* Offset binary: bytes sort as numbers do. */
static inline int64_t read_time(const uint8_t *at)
{
    uint64_t bits = read_big(at, 8) ^ ((uint64_t)1 << 63);
    int64_t number;
    memcpy(&number, &bits, sizeof number);
    return number;
}

static inline char *put_time(char *at, int64_t number)
{
    return put_big(at, (uint64_t)number ^ ((uint64_t)1 << 63), 8);
}

/* What the names of all rows of a key begin with, on one side and in one bucket. */
static inline char *put_prefix(char *at, int64_t bucket, int side, const void *key,
                               Py_ssize_t size)
{
    *at++ = ROW_MARKER;
    at = put_big(put_time(at, bucket), (uint64_t)side, 1);
    return put(put_big(at, (uint64_t)size, 4), key, size);
}

/* ---- Avro's numbers, see schemas/varint.py ------------------------------------------------- */

typedef struct {
    const uint8_t *at;
    const uint8_t *end;
} Cursor;

/* `read_long`, at most `bytes_max` bytes of it. */
static inline int read_long(Cursor *cursor, int bytes_max, int64_t *number)
{
    uint64_t zigzag = 0;
    for (int count = 0; count < bytes_max && cursor->at < cursor->end; count++) {
        uint8_t byte = *cursor->at++;
        if (count == LONG_BYTES_MAX - 1 && byte > 1)
            return 0; /* More than 64 bits. */
        zigzag |= (uint64_t)(byte & 127) << (7 * count);
        if (byte < 128) {
            uint64_t sign = 0 - (zigzag & 1);
            uint64_t bits = (zigzag >> 1) ^ sign;
            memcpy(number, &bits, sizeof bits);
            return 1;
        }
    }
    return 0;
}

/* `encode_long`; there must be room for LONG_BYTES_MAX. */
static inline char *put_long(char *at, int64_t number)
{
    uint64_t zigzag = ((uint64_t)number << 1) ^ (number < 0 ? UINT64_MAX : 0);
    while (zigzag > 127) {
        *at++ = (char)(zigzag | 128);
        zigzag >>= 7;
    }
    *at++ = (char)zigzag;
    return at;
}

#endif
