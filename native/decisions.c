/* Records to decisions. */
#include "loops.h"

enum { LATENESS = LIMITS, BYTES_MAX, PAIRS_MAX, BOUNDS };

/* How far event time has come; not known before the first event. */
typedef struct {
    int64_t ts;
    int known;
} Level;

/* A turn's decisions. The objects belong to the caller, but for the slots. */
typedef struct {
    PyObject *table, *open, *pairs, *inserted;
    Slots slots;
    Met met;
    int64_t bounds[BOUNDS];
    Level lane, tops[2];
    int counts[2]; /* Whether the lane follows this side. */
} Turn;

/* ---- Watermarks, see state/watermark.py ---------------------------------------------------- */

static int read_level(PyObject *object, Level *level)
{
    level->known = object != Py_None;
    return !level->known || number_of(object, &level->ts);
}

static PyObject *level_object(const Level *level)
{
    return level->known ? PyLong_FromLongLong(level->ts) : Py_NewRef(Py_None);
}

static int is_before(const Level *one, const Level *other)
{
    return other->known && (!one->known || one->ts < other->ts);
}

static void move(Turn *turn, int side, int64_t ts)
{
    Level moved = {ts, 1};
    const Level *lower = NULL;
    if (!is_before(&turn->tops[side], &moved))
        return;
    turn->tops[side] = moved;
    for (int each = 0; each < 2; each++)
        if (turn->counts[each] && (lower == NULL || is_before(&turn->tops[each], lower)))
            lower = &turn->tops[each];
    if (lower != NULL && is_before(&turn->lane, lower))
        turn->lane = *lower;
}

/* ---- A plain INSERT ------------------------------------------------------------------------ */

/* Notes the matches of a new row, and puts it into its window: 1; 0 is a doubt, with nothing
 * changed; -1 with an exception. */
static int enter(Turn *turn, PyObject *window, PyObject *record, int side, const Times *times)
{
    PyObject *mine = PyTuple_GET_ITEM(window, side), *theirs = PyTuple_GET_ITEM(window, 1 - side);
    PyObject *row = PyTuple_GET_ITEM(record, ROW);
    Slots *slots = &turn->slots;
    Met *met = &turn->met;
    if (!overlapping(theirs, times->start, times->end, slots, met))
        return 0;
    int done = put_row(mine, row, slots);
    if (done <= 0)
        return done;
    for (Py_ssize_t at = 0; at < met->size; at++) {
        PyObject *left = side ? met->rows[at] : row, *right = side ? row : met->rows[at];
        if (append(turn->pairs, PyTuple_Pack(3, left, right, record)) < 0)
            return -1;
    }
    PyObject **used = slot_of(mine, &slots->used);
    if (used != NULL && *used != Py_True)
        Py_SETREF(*used, Py_NewRef(Py_True));
    return PyList_Append(turn->inserted, record) < 0 ? -1 : 1;
}

/* The same for any record; `ts` is set where it was no doubt. */
static int insert(Turn *turn, PyObject *record, int side, int64_t *ts)
{
    PyObject *key = PyTuple_GET_ITEM(record, KEY), *row = PyTuple_GET_ITEM(record, ROW);
    const int64_t *bounds = turn->bounds;
    const Level *lane = &turn->lane;
    Times times;
    if (!PyBytes_CheckExact(key) || !is_insert(row, bounds, &times)
        || !PyBytes_CheckExact(PyTuple_GET_ITEM(row, VALUE))
        || PyBytes_GET_SIZE(key) + PyBytes_GET_SIZE(PyTuple_GET_ITEM(row, VALUE))
            > bounds[BYTES_MAX]
        || (lane->known && times.ts < lane->ts
            && (uint64_t)lane->ts - (uint64_t)times.ts > (uint64_t)bounds[LATENESS]))
        return 0;
    PyObject *window = PyDict_GetItemWithError(turn->table, key);
    if (window != NULL)
        Py_INCREF(window);
    else if (PyErr_Occurred() || (window = PyObject_CallOneArg(turn->open, key)) == NULL)
        return -1;
    int entered = is_tuple(window, 2) ? enter(turn, window, record, side, &times) : 0;
    Py_DECREF(window);
    *ts = times.ts;
    return entered;
}

/* ---- Records ------------------------------------------------------------------------------- */

/* Whether `doubtful(record, lane's watermark)` says that the record moves its side's watermark;
 * -1 with an exception. */
static int ask(const Turn *turn, PyObject *doubtful, PyObject *record, int64_t *ts)
{
    PyObject *given[] = {record, level_object(&turn->lane)};
    PyObject *answer = given[1] == NULL ? NULL : PyObject_Vectorcall(doubtful, given, 2, NULL);
    int moves = answer == NULL ? -1 : PyObject_IsTrue(answer);
    Py_XDECREF(given[1]);
    Py_XDECREF(answer);
    PyObject *row = PyTuple_GET_ITEM(record, ROW);
    if (moves > 0 && !(is_tuple(row, ROW_SIZE) && number_of(PyTuple_GET_ITEM(row, TS), ts))) {
        PyErr_SetString(PyExc_OverflowError, "a watermark is a time");
        return -1;
    }
    return moves;
}

/* Decides one record, and moves the watermarks; -1 with an exception. */
static int decide_one(Turn *turn, PyObject *record, PyObject *doubtful)
{
    int64_t side, ts = 0;
    if (!is_tuple(record, ARRIVAL_SIZE) || !number_of(PyTuple_GET_ITEM(record, SIDE), &side)
        || side < 0 || side > 1) {
        PyErr_SetString(PyExc_TypeError, "a record is (rank, side, offset, key, parts, source)");
        return -1;
    }
    int moves = insert(turn, record, (int)side, &ts);
    if (moves == 0)
        moves = ask(turn, doubtful, record, &ts);
    if (moves > 0)
        move(turn, (int)side, ts);
    return moves < 0 ? -1 : 0;
}

/* The levels of lane, left and right, and which sides count; raises TypeError. */
static int read_watermarks(PyObject *watermarks, PyObject *counting, Turn *turn)
{
    Level *levels[] = {&turn->lane, &turn->tops[0], &turn->tops[1]};
    int whole = PyTuple_Check(watermarks) && PyTuple_GET_SIZE(watermarks) == 3
        && is_tuple(counting, 2);
    for (int at = 0; whole && at < 3; at++)
        whole = read_level(PyTuple_GET_ITEM(watermarks, at), levels[at]);
    for (int side = 0; whole && side < 2; side++)
        turn->counts[side] = PyTuple_GET_ITEM(counting, side) == Py_True;
    if (!whole)
        PyErr_SetString(PyExc_TypeError, "no watermarks");
    return whole;
}

/* (table, open, pairs, inserted, bounds); raises TypeError, OverflowError. */
static int read_deciding(PyObject *deciding, Turn *turn)
{
    if (!PyTuple_Check(deciding) || PyTuple_GET_SIZE(deciding) != 5
        || !PyDict_CheckExact(turn->table = PyTuple_GET_ITEM(deciding, 0))
        || !PyList_CheckExact(turn->pairs = PyTuple_GET_ITEM(deciding, 2))
        || !PyList_CheckExact(turn->inserted = PyTuple_GET_ITEM(deciding, 3))) {
        PyErr_SetString(PyExc_TypeError, "nothing to decide with");
        return 0;
    }
    turn->open = PyTuple_GET_ITEM(deciding, 1);
    return read_numbers(PyTuple_GET_ITEM(deciding, 4), turn->bounds, BOUNDS);
}

/* decide(records, deciding, watermarks, counting, doubtful): decides the records in their order,
 * and returns how many it took, and the watermarks of lane, left and right.
 * `doubtful(record, watermark)` decides one, and says whether it moves its side's watermark. See
 * app/decide.py. */
PyObject *decide(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t nargs)
{
    Turn turn = {.table = NULL};
    Py_ssize_t taken = 0;
    if (nargs != 5 || !PyList_CheckExact(args[0])) {
        PyErr_SetString(PyExc_TypeError, "decide(records, deciding, watermarks, counting, doubtful)");
        return NULL;
    }
    if (!read_deciding(args[1], &turn) || !read_watermarks(args[2], args[3], &turn))
        return NULL;
    if (take_slots(&turn.slots) < 0)
        return NULL;
    int failed = 0;
    while (!failed && taken < PyList_GET_SIZE(args[0])
           && PyList_GET_SIZE(turn.pairs) <= turn.bounds[PAIRS_MAX]) {
        PyObject *record = Py_NewRef(PyList_GET_ITEM(args[0], taken));
        failed = decide_one(&turn, record, args[4]) < 0;
        Py_DECREF(record);
        taken++;
    }
    give_slots(&turn.slots);
    PyMem_Free(turn.met.rows);
    if (failed)
        return NULL;
    PyObject *items[] = {PyLong_FromSsize_t(taken), level_object(&turn.lane),
                         level_object(&turn.tops[0]), level_object(&turn.tops[1])};
    return tuple_of(items, 4);
}
