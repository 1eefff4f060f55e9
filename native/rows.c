/* Rows to bytes. */
#include "loops.h"

typedef struct {
    PyObject *name, *value;
    int64_t bucket, length; /* Of the row's interval. */
    int side;
} Entry;

static int by_bytes(PyObject *one, PyObject *two)
{
    Py_ssize_t size = PyBytes_GET_SIZE(one), other = PyBytes_GET_SIZE(two);
    int order = memcmp(PyBytes_AS_STRING(one), PyBytes_AS_STRING(two),
                       (size_t)(size < other ? size : other));
    return order ? order : (size > other) - (size < other);
}

static int by_name(const void *one, const void *two)
{
    return by_bytes(((const Entry *)one)->name, ((const Entry *)two)->name);
}

static char *put_little(char *at, uint32_t number)
{
    for (int shift = 0; shift < 32; shift += 8)
        *at++ = (char)(number >> shift);
    return at;
}

/* The row of a record as it is stored, see state/keys.py; 0 is a doubt, or an exception. */
static int encode(PyObject *record, int64_t span, Entry *entry)
{
    int64_t end, start, ts, flags, side;
    const uint8_t *key, *value;
    Py_ssize_t key_size, value_size;
    Text id;
    PyObject *row;
    if (!is_tuple(record, ARRIVAL_SIZE) || !is_tuple(row = PyTuple_GET_ITEM(record, ROW), ROW_SIZE)
        || !number_of(PyTuple_GET_ITEM(record, SIDE), &side) || side < 0 || side > 1
        || !bytes_of(PyTuple_GET_ITEM(record, KEY), &key, &key_size) || key_size > INT32_MAX
        || !number_of(PyTuple_GET_ITEM(row, END), &end)
        || !number_of(PyTuple_GET_ITEM(row, START), &start) || start > end
        || (start < 0 && end > INT64_MAX + start) || !number_of(PyTuple_GET_ITEM(row, TS), &ts)
        || !number_of(PyTuple_GET_ITEM(row, KIND), &flags) || flags < 0 || flags > 255
        || !bytes_of(PyTuple_GET_ITEM(row, VALUE), &value, &value_size)
        || value_size > INT32_MAX || !text_of(PyTuple_GET_ITEM(row, ID), &id))
        return 0;
    entry->bucket = end / span - (end % span < 0);
    entry->side = (int)side;
    entry->length = end - start;
    entry->name = PyBytes_FromStringAndSize(NULL, KEY_AT + key_size + INTERVAL_BYTES + id.size);
    entry->value = PyBytes_FromStringAndSize(NULL, VALUE_AT + value_size);
    if (entry->name != NULL && entry->value != NULL) {
        char *at = put_prefix(PyBytes_AS_STRING(entry->name), entry->bucket, entry->side, key,
                              key_size);
        put(put_time(put_time(at, end), start), id.bytes, id.size);
        at = put_big(PyBytes_AS_STRING(entry->value), (uint64_t)flags, 1);
        put(put_time(at, ts), value, value_size);
    }
    Py_XDECREF(id.held);
    return entry->name != NULL && entry->value != NULL;
}

/* The entries from `first` on that are of its bucket and side, as (bucket, side, rows, bytes of
 * the names, of the values, longest interval); moves `first` behind them. NULL without an
 * exception if two have the same name. */
static PyObject *group_of(const Entry *entries, Py_ssize_t count, Py_ssize_t *first)
{
    const Entry *one = &entries[*first];
    Py_ssize_t names = 0, values = 0, at = *first;
    int64_t longest = 0;
    PyObject *rows = PyDict_New();
    for (; rows != NULL && at < count; at++) {
        const Entry *entry = &entries[at];
        if (entry->bucket != one->bucket || entry->side != one->side)
            break;
        names += PyBytes_GET_SIZE(entry->name);
        values += PyBytes_GET_SIZE(entry->value);
        longest = entry->length > longest ? entry->length : longest;
        if (PyDict_SetItem(rows, entry->name, entry->value) < 0)
            Py_CLEAR(rows);
    }
    if (rows != NULL && PyDict_GET_SIZE(rows) != at - *first)
        Py_CLEAR(rows);
    *first = at;
    return rows == NULL ? NULL
                        : Py_BuildValue("LiNnnL", (long long)one->bucket, one->side, rows, names,
                                        values, (long long)longest);
}

/* groups(added, span): the rows of these records, as bytes in their order, by bucket and side, see
 * `group_of`; None is a doubt. See `stored_rows` in app/effects.py. */
PyObject *groups(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t nargs)
{
    int64_t span;
    if (nargs != 2 || !PyList_CheckExact(args[0]) || !number_of(args[1], &span) || span <= 0) {
        PyErr_SetString(PyExc_TypeError, "groups(added, span)");
        return NULL;
    }
    Py_ssize_t count = PyList_GET_SIZE(args[0]), at;
    Entry *entries = PyMem_Calloc((size_t)count + 1, sizeof(Entry));
    if (entries == NULL)
        return PyErr_NoMemory();
    PyObject *found = NULL;
    for (at = 0; at < count && at < PyList_GET_SIZE(args[0]); at++)
        if (!encode(PyList_GET_ITEM(args[0], at), span, &entries[at]))
            break;
    if (at == count) {
        /* A name begins with its bucket and side. */
        qsort(entries, (size_t)count, sizeof(Entry), by_name);
        found = PyList_New(0);
        for (at = 0; found != NULL && at < count;)
            if (append(found, group_of(entries, count, &at)) < 0)
                Py_CLEAR(found);
    }
    for (at = 0; at < count; at++) {
        Py_XDECREF(entries[at].name);
        Py_XDECREF(entries[at].value);
    }
    PyMem_Free(entries);
    return found == NULL && !PyErr_Occurred() ? Py_NewRef(Py_None) : found;
}

/* pack(rows): the rows of a turn, of which there are some, as one array; None is a doubt. See
 * `pack_rows` in state/packing.py. */
PyObject *pack(PyObject *Py_UNUSED(module), PyObject *rows)
{
    if (!PyDict_CheckExact(rows)) {
        PyErr_SetString(PyExc_TypeError, "pack(rows)");
        return NULL;
    }
    Py_ssize_t count = PyDict_GET_SIZE(rows), position = 0, at = 0, size = 4 + 8 * count;
    if (count == 0)
        return Py_NewRef(Py_None);
    PyObject *packed = NULL;
    int in_order = 1;
    Entry *entries = PyMem_Calloc((size_t)count + 1, sizeof(Entry));
    if (entries == NULL)
        return PyErr_NoMemory();
    while (at < count && PyDict_Next(rows, &position, &entries[at].name, &entries[at].value)) {
        const Entry *entry = &entries[at];
        if (!PyBytes_CheckExact(entry->name) || !PyBytes_CheckExact(entry->value)
            || PyBytes_GET_SIZE(entry->name) > INT32_MAX
            || PyBytes_GET_SIZE(entry->value) > INT32_MAX)
            break;
        size += PyBytes_GET_SIZE(entry->name) + PyBytes_GET_SIZE(entry->value);
        in_order &= at == 0 || by_bytes(entries[at - 1].name, entry->name) < 0;
        at++;
    }
    if (at == count && count <= INT32_MAX)
        packed = PyBytes_FromStringAndSize(NULL, size);
    if (packed != NULL) {
        if (!in_order)
            qsort(entries, (size_t)count, sizeof(Entry), by_name);
        char *lengths = PyBytes_AS_STRING(packed), *bytes = lengths + 4 + 8 * count;
        lengths = put_little(lengths, (uint32_t)count);
        for (at = 0; at < count; at++) {
            Py_ssize_t name = PyBytes_GET_SIZE(entries[at].name);
            Py_ssize_t value = PyBytes_GET_SIZE(entries[at].value);
            lengths = put_little(put_little(lengths, (uint32_t)name), (uint32_t)value);
            bytes = put(bytes, PyBytes_AS_STRING(entries[at].name), name);
            bytes = put(bytes, PyBytes_AS_STRING(entries[at].value), value);
        }
    }
    PyMem_Free(entries);
    return packed == NULL && !PyErr_Occurred() ? Py_NewRef(Py_None) : packed;
}
