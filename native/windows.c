/* One side of a window: rows in, rows out. See state/side.py and state/overlap.py. */
#include "loops.h"

#include <structmember.h>

/* Rows of one side whose lengths have the same number of bits, by end. */
typedef struct {
    PyObject *object, *rows;
    int64_t bits, longest;
} Shelf;

int take_slots(Slots *slots)
{
    const struct {
        Slot *slot;
        const char *name;
    } all[] = {{&slots->last, "last"}, {&slots->used, "used"}, {&slots->shelves, "shelves"},
               {&slots->bits, "bits"}, {&slots->longest, "longest"}, {&slots->rows, "rows"}};
    memset(slots, 0, sizeof *slots);
    for (size_t at = 0; at < sizeof all / sizeof *all; at++)
        if ((all[at].slot->name = PyUnicode_InternFromString(all[at].name)) == NULL) {
            give_slots(slots);
            return -1;
        }
    return 0;
}

void give_slots(Slots *slots)
{
    Slot *all[] = {&slots->last, &slots->used, &slots->shelves, &slots->bits, &slots->longest,
                   &slots->rows};
    for (size_t at = 0; at < sizeof all / sizeof *all; at++) {
        Py_CLEAR(all[at]->name);
        Py_CLEAR(all[at]->type);
    }
}

PyObject **slot_of(PyObject *owner, Slot *slot)
{
    PyTypeObject *type = Py_TYPE(owner);
    if (slot->type != type) {
        PyObject *found = PyObject_GetAttr((PyObject *)type, slot->name);
        if (found == NULL)
            PyErr_Clear(); /* A doubt: Python's version raises the same. */
        else if (Py_IS_TYPE(found, &PyMemberDescr_Type)) {
            const PyMemberDef *member = ((PyMemberDescrObject *)found)->d_member;
            if (member->type == T_OBJECT_EX && !(member->flags & READONLY)) {
                Py_XSETREF(slot->type, (PyTypeObject *)Py_NewRef(type));
                slot->offset = member->offset;
            }
        }
        Py_XDECREF(found);
    }
    if (slot->type != type)
        return NULL;
    PyObject **place = (PyObject **)((char *)owner + slot->offset);
    return *place == NULL ? NULL : place;
}

/* ---- Shelves ------------------------------------------------------------------------------- */

static int number_at(PyObject *owner, Slot *slot, int64_t *number)
{
    PyObject **place = slot_of(owner, slot);
    return place != NULL && number_of(*place, number);
}

/* Its parts; 0 is a doubt, and so is a shelf without rows. */
static int read_shelf(PyObject *object, Slots *slots, Shelf *shelf)
{
    PyObject **rows = slot_of(object, &slots->rows);
    shelf->object = object;
    return rows != NULL && PyList_CheckExact(shelf->rows = *rows)
        && PyList_GET_SIZE(shelf->rows) > 0 && number_at(object, &slots->bits, &shelf->bits)
        && number_at(object, &slots->longest, &shelf->longest);
}

/* A row's end; 0 is a doubt. */
static int end_of(PyObject *row, int64_t *end)
{
    return is_tuple(row, ROW_SIZE) && number_of(PyTuple_GET_ITEM(row, END), end);
}

/* How many rows of a shelf end before `bound`, -1 for a doubt. Most rows are about the latest, so
 * it looks there first: that is where the memory is warm, too. */
static Py_ssize_t count_before(PyObject *rows, int64_t bound)
{
    Py_ssize_t high = PyList_GET_SIZE(rows), low = high, step = 1;
    int64_t end = bound;
    while (low > 0) {
        low = low > step ? low - step : 0;
        if (!end_of(PyList_GET_ITEM(rows, low), &end))
            return -1;
        if (end < bound)
            break;
        high = low;
        step *= 2;
    }
    /* All below `low` end before it, those from `high` on do not. */
    while (low < high) {
        Py_ssize_t middle = low + (high - low) / 2;
        if (!end_of(PyList_GET_ITEM(rows, middle), &end))
            return -1;
        if (end < bound)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static int bits_of(uint64_t length)
{
    return length == 0 ? 0 : 64 - __builtin_clzll(length);
}

/* Where a row belongs among those of a shelf: behind all that are not greater; -1 is a doubt. */
static Py_ssize_t place_of(PyObject *rows, PyObject *row, int64_t end)
{
    Py_ssize_t size = PyList_GET_SIZE(rows), at = count_before(rows, end);
    int64_t other;
    while (at >= 0 && at < size) {
        PyObject *next = PyList_GET_ITEM(rows, at);
        if (!end_of(next, &other))
            return -1;
        if (other > end)
            break;
        int less = PyObject_RichCompareBool(row, next, Py_LT);
        if (less < 0) {
            PyErr_Clear();
            return -1;
        }
        if (less)
            break;
        at++;
    }
    return at;
}

/* Puts a row on its shelf: 1; 0 is a doubt, with nothing changed; -1 with an exception. */
static int stand(PyObject *shelves, PyObject *row, Slots *slots)
{
    int64_t end, start;
    if (!PyList_CheckExact(shelves) || !end_of(row, &end)
        || !number_of(PyTuple_GET_ITEM(row, START), &start) || start > end)
        return 0;
    uint64_t length = (uint64_t)end - (uint64_t)start;
    for (Py_ssize_t each = 0; each < PyList_GET_SIZE(shelves); each++) {
        Shelf shelf;
        if (!read_shelf(PyList_GET_ITEM(shelves, each), slots, &shelf))
            return 0;
        if (shelf.bits != bits_of(length))
            continue;
        Py_ssize_t at = place_of(shelf.rows, row, end);
        if (at < 0)
            return 0;
        if (length > (uint64_t)shelf.longest) {
            PyObject *longest = PyLong_FromUnsignedLongLong(length);
            if (longest == NULL)
                return -1;
            Py_SETREF(*slot_of(shelf.object, &slots->longest), longest);
        }
        return PyList_Insert(shelf.rows, at, row) < 0 ? -1 : 1;
    }
    return 0;
}

/* ---- Rows in ------------------------------------------------------------------------------- */

/* Puts a row behind the others of few: 1; 0 is a doubt, with nothing changed. */
static int stand_last(PyObject *side, PyObject *row, Slots *slots)
{
    int64_t end, last;
    PyObject **place = slot_of(side, &slots->last);
    if (place == NULL || PyDict_GET_SIZE(side) >= FEW || !end_of(row, &end))
        return 0;
    if (PyDict_GET_SIZE(side) > 0 && (!number_of(*place, &last) || last > end))
        return 0;
    Py_SETREF(*place, Py_NewRef(PyTuple_GET_ITEM(row, END)));
    return 1;
}

int put_row(PyObject *side, PyObject *row, Slots *slots)
{
    PyObject **shelves, *id = PyTuple_GET_ITEM(row, ID);
    if (!PyDict_Check(side) || !PyUnicode_CheckExact(id))
        return 0;
    if (PyDict_GetItemWithError(side, id) != NULL || PyErr_Occurred())
        return PyErr_Occurred() ? -1 : 0;
    if ((shelves = slot_of(side, &slots->shelves)) == NULL)
        return 0;
    int done = *shelves == Py_None ? stand_last(side, row, slots) : stand(*shelves, row, slots);
    return done > 0 && PyDict_SetItem(side, id, row) < 0 ? -1 : done;
}

/* ---- Rows out ------------------------------------------------------------------------------ */

static int add_met(Met *met, PyObject *row)
{
    if (met->size == met->room) {
        Py_ssize_t room = met->room ? 2 * met->room : 4 * FEW;
        PyObject **rows = PyMem_Realloc(met->rows, (size_t)room * sizeof *rows);
        if (rows == NULL)
            return 0;
        met->rows = rows, met->room = room;
    }
    met->rows[met->size++] = row;
    return 1;
}

/* Notes the row if it begins by `end`, and lives; 0 is a doubt. */
static int meet(PyObject *row, int64_t end, Met *met)
{
    int64_t start, flags;
    return number_of(PyTuple_GET_ITEM(row, START), &start)
        && number_of(PyTuple_GET_ITEM(row, KIND), &flags)
        && (start > end || flags != LIVE || add_met(met, row));
}

static int among_few(PyObject *side, int64_t start, int64_t end, Met *met)
{
    PyObject *rows[FEW];
    Py_ssize_t position = 0;
    int64_t row_end;
    int count = 0;
    if (PyDict_GET_SIZE(side) > FEW)
        return 0;
    while (count < FEW && PyDict_Next(side, &position, NULL, &rows[count]))
        count++;
    while (count-- > 0) { /* Latest first. */
        if (!end_of(rows[count], &row_end))
            return 0;
        if (row_end < start)
            break;
        if (!meet(rows[count], end, met))
            return 0;
    }
    return 1;
}

static int on_shelf(const Shelf *shelf, int64_t start, int64_t end, Met *met)
{
    int64_t reach, row_end;
    Py_ssize_t at = count_before(shelf->rows, start);
    if (at < 0 || __builtin_add_overflow(end, shelf->longest, &reach))
        return 0;
    for (; at < PyList_GET_SIZE(shelf->rows); at++) {
        PyObject *row = PyList_GET_ITEM(shelf->rows, at);
        if (!end_of(row, &row_end))
            return 0;
        if (row_end > reach)
            break;
        if (!meet(row, end, met))
            return 0;
    }
    return 1;
}

int overlapping(PyObject *side, int64_t start, int64_t end, Slots *slots, Met *met)
{
    PyObject **place = PyDict_Check(side) ? slot_of(side, &slots->shelves) : NULL;
    PyObject *shelves = place == NULL ? NULL : *place;
    met->size = 0;
    if (shelves == Py_None)
        return among_few(side, start, end, met);
    if (shelves == NULL || !PyList_CheckExact(shelves))
        return 0;
    for (Py_ssize_t each = 0; each < PyList_GET_SIZE(shelves); each++) {
        Shelf shelf;
        if (!read_shelf(PyList_GET_ITEM(shelves, each), slots, &shelf)
            || !on_shelf(&shelf, start, end, met))
            return 0;
    }
    return 1;
}
