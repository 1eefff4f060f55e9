/* Stored entries: out of a changelog record, and what they come to. */
#include "loops.h"

enum { FLAGS_MAX = 3 };

static uint32_t little(const uint8_t *at)
{
    return at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

/* unpack(packed): the (name, value) entries of one array; None is a doubt. See `unpack_rows` in
 * state/packing.py. */
PyObject *unpack(PyObject *Py_UNUSED(module), PyObject *packed)
{
    const uint8_t *bytes;
    Py_ssize_t size;
    if (!bytes_of(packed, &bytes, &size) || size < 4
        || (uint64_t)little(bytes) > ((uint64_t)size - 4) / 8)
        return Py_NewRef(Py_None);
    Py_ssize_t count = (Py_ssize_t)little(bytes), left = size - 4 - 8 * count;
    const uint8_t *lengths = bytes + 4, *data = lengths + 8 * count;
    PyObject *entries = PyList_New(0);
    for (Py_ssize_t at = 0; entries != NULL && at < count; at++, lengths += 8) {
        uint64_t name = little(lengths), value = little(lengths + 4);
        if (name + value > (uint64_t)left) {
            Py_CLEAR(entries);
            break;
        }
        PyObject *parts[2] = {
            PyBytes_FromStringAndSize((const char *)data, (Py_ssize_t)name),
            PyBytes_FromStringAndSize((const char *)data + name, (Py_ssize_t)value),
        };
        data += name + value;
        left -= (Py_ssize_t)(name + value);
        if (append(entries, tuple_of(parts, 2)) < 0)
            Py_CLEAR(entries);
    }
    if (entries != NULL && left != 0)
        Py_CLEAR(entries);
    return entries == NULL && !PyErr_Occurred() ? Py_NewRef(Py_None) : entries;
}

/* An entry's name and value; 0 is a doubt. */
static int entry_of(PyObject *entry, const uint8_t **name, Py_ssize_t *size, const uint8_t **value,
                    Py_ssize_t *value_size)
{
    return is_tuple(entry, 2) && bytes_of(PyTuple_GET_ITEM(entry, 0), name, size)
        && bytes_of(PyTuple_GET_ITEM(entry, 1), value, value_size) && *size >= SIDE_AT
        && (*name)[0] == ROW_MARKER && *value_size >= 1 && (*value)[FLAGS_AT] <= FLAGS_MAX;
}

/* The entries from `at` on that are of one bucket, as (bucket, bytes, names with flags); moves `at`
 * behind them. NULL without an exception is a doubt. */
static PyObject *bucket_of(PyObject *entries, Py_ssize_t *at)
{
    const uint8_t *name, *value, *first = NULL;
    Py_ssize_t size, value_size, sum = 0;
    PyObject *hashed = PyList_New(0);
    for (; hashed != NULL && *at < PyList_GET_SIZE(entries); ++*at) {
        if (!entry_of(PyList_GET_ITEM(entries, *at), &name, &size, &value, &value_size)) {
            Py_DECREF(hashed);
            return NULL;
        }
        if (first != NULL && memcmp(first, name, SIDE_AT) != 0)
            break;
        first = name;
        sum += size + value_size;
        PyObject *one = PyBytes_FromStringAndSize(NULL, size + 1);
        if (one != NULL)
            put(put(PyBytes_AS_STRING(one), name, size), value, 1);
        if (append(hashed, one) < 0)
            Py_CLEAR(hashed);
    }
    if (hashed == NULL)
        return NULL;
    return Py_BuildValue("LnN", (long long)read_time(first + BUCKET_AT), sum, hashed);
}

/* tally(entries): what entries in their order come to, by bucket, see `bucket_of`; None is a doubt.
 * See `tally` in state/keys.py. */
PyObject *tally(PyObject *Py_UNUSED(module), PyObject *entries)
{
    if (!PyList_CheckExact(entries)) {
        PyErr_SetString(PyExc_TypeError, "tally(entries)");
        return NULL;
    }
    PyObject *found = PyList_New(0);
    for (Py_ssize_t at = 0; found != NULL && at < PyList_GET_SIZE(entries);) {
        PyObject *bucket = bucket_of(entries, &at);
        if (bucket == NULL || append(found, bucket) < 0)
            Py_CLEAR(found);
    }
    return found == NULL && !PyErr_Occurred() ? Py_NewRef(Py_None) : found;
}

/* The hash that a bytes object of these two runs of bytes would have; -1 with an exception. */
static Py_hash_t hash_of(const uint8_t *one, Py_ssize_t size, const uint8_t *two, Py_ssize_t rest)
{
    PyObject *bytes = PyBytes_FromStringAndSize(NULL, size + rest);
    if (bytes == NULL)
        return -1;
    put(put(PyBytes_AS_STRING(bytes), one, size), two, rest);
    Py_hash_t digest = PyObject_Hash(bytes);
    Py_DECREF(bytes);
    return digest;
}

/* ---- Which buckets may hold what, see state/presence.py ------------------------------------- */

/* What a bucket was told of; no cells stand for all ones. */
typedef struct {
    uint8_t *cells;
    size_t last;
    int64_t bucket;
} Filter;

/* Two bits by part of a hash. */
typedef struct {
    const uint8_t *bits;
    uint64_t mask;
} Patterns;

static int read_patterns(PyObject *object, Patterns *patterns)
{
    Py_ssize_t count;
    if (!bytes_of(object, &patterns->bits, &count) || count < 1 || (count & (count - 1)) != 0)
        return 0;
    patterns->mask = (uint64_t)count - 1;
    return 1;
}

static int read_cells(PyObject *cells, Filter *filter)
{
    if (!PyByteArray_CheckExact(cells) || PyByteArray_GET_SIZE(cells) < 1)
        return 0;
    filter->cells = (uint8_t *)PyByteArray_AS_STRING(cells);
    filter->last = (size_t)PyByteArray_GET_SIZE(cells) - 1;
    return 1;
}

static uint8_t pattern_of(const Patterns *patterns, Py_hash_t digest)
{
    return patterns->bits[(uint64_t)digest >> 32 & patterns->mask];
}

/* Whether what has this hash may be there. */
static int holds(const Filter *filter, const Patterns *patterns, Py_hash_t digest)
{
    uint8_t pattern = pattern_of(patterns, digest);
    return filter->cells == NULL
        || (filter->cells[(size_t)digest & filter->last] & pattern) == pattern;
}

/* Whether it was not there before. */
static int enter(const Filter *filter, const Patterns *patterns, Py_hash_t digest)
{
    int known = holds(filter, patterns, digest);
    filter->cells[(size_t)digest & filter->last] |= pattern_of(patterns, digest);
    return !known;
}

/* mark(names, at, cells, patterns, room): notes the keys and ids of rows from `at` on that are of one
 * bucket, side and length of key, until `room` of them were new; (the place behind them, how many
 * were new). See `_mark` in state/presence.py. */
PyObject *mark(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t nargs)
{
    const uint8_t *head = NULL, *name;
    Py_ssize_t at = nargs == 5 ? PyLong_AsSsize_t(args[1]) : -1, filled = 0, size;
    Py_ssize_t room = nargs == 5 ? PyLong_AsSsize_t(args[4]) : -1;
    Filter filter;
    Patterns patterns;
    if (nargs != 5 || !PyList_CheckExact(args[0]) || at < 0 || room < 0
        || !read_cells(args[2], &filter) || !read_patterns(args[3], &patterns)) {
        PyErr_SetString(PyExc_TypeError, "mark(names, at, cells, patterns, room)");
        return NULL;
    }
    for (; at < PyList_GET_SIZE(args[0]) && filled < room; at++) {
        if (!bytes_of(PyList_GET_ITEM(args[0], at), &name, &size) || size < KEY_AT
            || read_big(name + LENGTH_AT, 4) + INTERVAL_BYTES > (uint64_t)(size - KEY_AT)) {
            PyErr_SetString(PyExc_ValueError, "not a row key");
            return NULL;
        }
        if (head != NULL && memcmp(head, name, KEY_AT) != 0)
            break;
        head = name;
        Py_ssize_t key_size = (Py_ssize_t)read_big(name + LENGTH_AT, 4);
        Py_ssize_t id_at = KEY_AT + key_size + INTERVAL_BYTES;
        Py_hash_t of_key = hash_of(name + KEY_AT, key_size, name, 0);
        Py_hash_t of_id = hash_of(name + KEY_AT, key_size, name + id_at, size - id_at);
        if (of_key == -1 || of_id == -1)
            return NULL;
        filled += enter(&filter, &patterns, of_key);
        filled += enter(&filter, &patterns, of_id);
    }
    return Py_BuildValue("nn", at, filled);
}

/* ---- What a record may meet in a store ------------------------------------------------------ */

typedef struct {
    Filter *filters;
    Py_ssize_t count;
    Patterns patterns[2];
    int64_t span;
} Screen;

static PyObject *first_of(PyObject *key, int64_t bucket, int side, int64_t end)
{
    Py_ssize_t size = PyBytes_GET_SIZE(key);
    PyObject *first = PyBytes_FromStringAndSize(NULL, KEY_AT + size + 8);
    if (first != NULL)
        put_time(put_prefix(PyBytes_AS_STRING(first), bucket, side, PyBytes_AS_STRING(key), size),
                 end);
    return first;
}

/* Adds where rows of the other side may stand that this record can match: 1; 0 if it is no INSERT of
 * an id that the buckets certainly lack, with nothing added; -1 with an exception. */
static int screen_one(const Screen *screen, PyObject *record, PyObject *firsts)
{
    int64_t side, start, kind;
    PyObject *key = PyTuple_GET_ITEM(record, KEY), *row = PyTuple_GET_ITEM(record, ROW);
    Text id;
    if (!PyBytes_CheckExact(key) || !is_tuple(row, ROW_SIZE)
        || !number_of(PyTuple_GET_ITEM(record, SIDE), &side) || side < 0 || side > 1
        || !number_of(PyTuple_GET_ITEM(row, KIND), &kind) || kind != INSERT
        || !number_of(PyTuple_GET_ITEM(row, START), &start)
        || !text_of(PyTuple_GET_ITEM(row, ID), &id))
        return 0;
    Py_hash_t of_key = PyObject_Hash(key);
    Py_hash_t own = hash_of((const uint8_t *)PyBytes_AS_STRING(key), PyBytes_GET_SIZE(key),
                            (const uint8_t *)id.bytes, id.size);
    Py_XDECREF(id.held);
    if (of_key == -1 || own == -1)
        return -1;
    for (Py_ssize_t at = 0; at < screen->count; at++)
        if (holds(&screen->filters[at], &screen->patterns[side], own))
            return 0;
    int64_t earliest = start / screen->span - (start % screen->span < 0);
    for (Py_ssize_t at = 0; at < screen->count; at++) {
        const Filter *filter = &screen->filters[at];
        if (filter->bucket >= earliest && holds(filter, &screen->patterns[1 - side], of_key)
            && append(firsts, first_of(key, filter->bucket, 1 - (int)side, start)) < 0)
            return -1;
    }
    return 1;
}

/* Filters of (bucket, cells or None); the caller frees them. */
static int read_filters(PyObject *list, Screen *screen)
{
    screen->count = PyList_GET_SIZE(list);
    screen->filters = PyMem_Calloc((size_t)screen->count + 1, sizeof(Filter));
    if (screen->filters == NULL) {
        PyErr_NoMemory();
        return 0;
    }
    for (Py_ssize_t at = 0; at < screen->count; at++) {
        PyObject *each = PyList_GET_ITEM(list, at);
        Filter *filter = &screen->filters[at];
        if (!is_tuple(each, 2) || !number_of(PyTuple_GET_ITEM(each, 0), &filter->bucket)
            || (PyTuple_GET_ITEM(each, 1) != Py_None
                && !read_cells(PyTuple_GET_ITEM(each, 1), filter))) {
            PyErr_SetString(PyExc_TypeError, "a filter is (bucket, cells)");
            return 0;
        }
    }
    return 1;
}

/* screen(records, filters, patterns, span): where rows may stand that these records could match, and
 * the keys of those of which that is not known. See `Presence.screen` in state/presence.py. */
PyObject *screen(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t nargs)
{
    Screen screen = {.filters = NULL};
    if (nargs != 4 || !PyList_CheckExact(args[0]) || !PyList_CheckExact(args[1])
        || !is_tuple(args[2], 2) || !read_patterns(PyTuple_GET_ITEM(args[2], 0), &screen.patterns[0])
        || !read_patterns(PyTuple_GET_ITEM(args[2], 1), &screen.patterns[1])
        || !number_of(args[3], &screen.span) || screen.span <= 0) {
        PyErr_SetString(PyExc_TypeError, "screen(records, filters, patterns, span)");
        return NULL;
    }
    PyObject *found[2] = {PyList_New(0), PyList_New(0)};
    int failed = found[0] == NULL || found[1] == NULL || !read_filters(args[1], &screen);
    for (Py_ssize_t at = 0; !failed && at < PyList_GET_SIZE(args[0]); at++) {
        PyObject *record = PyList_GET_ITEM(args[0], at);
        int screened = is_tuple(record, ARRIVAL_SIZE) ? screen_one(&screen, record, found[0]) : -1;
        if (screened == 0)
            screened = PyList_Append(found[1], PyTuple_GET_ITEM(record, KEY));
        if (screened < 0 && !PyErr_Occurred())
            PyErr_SetString(PyExc_TypeError, "a record");
        failed = screened < 0;
    }
    PyMem_Free(screen.filters);
    if (failed) {
        Py_XDECREF(found[0]);
        Py_XDECREF(found[1]);
        return NULL;
    }
    return tuple_of(found, 2);
}
