"""The queries of `app.checking.tables`, in the order in which they are used."""

from __future__ import annotations

from typing import Final

TABLES: Final = """
create table events (
    side varchar, lane integer, place bigint, key blob, part blob, retracts boolean,
    low bigint, high bigint, value blob
);
create table refused (side varchar, lane integer, place bigint, key blob, reason varchar);
create table log (
    match blob, gone boolean, place bigint, overlap_start bigint, overlap_end bigint, value blob
);
create table fated (side varchar, lane integer, place bigint, fate varchar);
create table stretches (width bigint);
create table due (side varchar, lane integer, before bigint);
"""
# A match that was too large is rejected under its own id, with the place of the record that would
# have completed it, which was taken; an unmatched row with no place at all.
TAKEN: Final = """
create table refusals as
select
    side, lane, place, refused.key as key,
    place < 0 or coalesce(
        reason = 'too_large' and refused.key is not null and refused.key <> events.key, false
    ) as of_match
from refused left join events using (side, lane, place);

create table taken as
from events anti join (from refusals where not of_match) as inputs using (side, lane, place);

create table often as
select side, lane, key, part from taken group by all having count(*) > 1;
"""
OFTEN: Final = """
select side, lane, key, part, place, retracts, low, high
from taken semi join often using (side, lane, key, part)
order by side, lane, key, part, place
"""
ROWS: Final = """
create table rows as
select side, lane, place, key, part, low, high, 'stands' as fate
from taken anti join often using (side, lane, key, part) where not retracts
union all
select side, lane, place, key, part, low, high, fated.fate
from taken join fated using (side, lane, place);

-- A row is in each stretch of time that it touches, which are two at most; so rows of a frequent
-- key meet those of about their time only. A pair counts where its overlap begins.
create table spread as
select rows.*, unnest(range(low // width, high // width + 1)) as stretch from rows, stretches;

create table pairs as
select
    l.part || '|'::blob || r.part as match,
    l.lane as lane,
    l.place as left_place,
    r.place as right_place,
    greatest(l.low, r.low) as low,
    least(l.high, r.high) as high,
    case
        when l.fate = 'retracted' or r.fate = 'retracted' then 'retracted'
        when l.fate = 'either' or r.fate = 'either' then 'either'
        else 'stands'
    end as fate
from (from spread where side = 'left') as l
join (from spread where side = 'right') as r
    on l.lane = r.lane and l.key = r.key and l.stretch = r.stretch
    and l.low <= r.high and r.low <= l.high
where l.stretch = greatest(l.low, r.low) // (select width from stretches);

-- Of each row that overlaps another one at all: whether one of these matches stands, or may.
create table met as
select
    side, lane, place,
    bool_or(fate = 'stands') as surely,
    bool_or(fate = 'either') as perhaps
from (
    select 'left' as side, lane, left_place as place, fate from pairs
    union all
    select 'right' as side, lane, right_place as place, fate from pairs
)
group by side, lane, place;

create table results as
select match, lane, left_place, right_place, low, high, fate from pairs
union all
select
    part as match,
    lane,
    case when side = 'left' then place end as left_place,
    case when side = 'right' then place end as right_place,
    low,
    high,
    case when fate = 'stands' and coalesce(perhaps, false) then 'either' else fate end as fate
from rows join due using (side, lane) left join met using (side, lane, place)
where high < before and not coalesce(surely, false);

"""
# Of a job that began in the middle of its inputs: the first record of each lane and side that is
# known to have been taken. Whether those before it were nobody can say.
BEGINNING: Final = """
create table beginning as
select side, lane, min(place) as place
from (
    select 'left' as side, lane, left_place as place from results semi join log using (match)
    union all
    select 'right' as side, lane, right_place as place from results semi join log using (match)
    union all
    select side, lane, place from refusals where not of_match
)
where place is not null
group by side, lane;

update results set fate = 'either'
where fate = 'stands' and (
    left_place < coalesce((
        select place from beginning where side = 'left' and beginning.lane = results.lane
    ), left_place + 1)
    or right_place < coalesce((
        select place from beginning where side = 'right' and beginning.lane = results.lane
    ), right_place + 1)
);
"""
EXPECTED: Final = """
create table expected as
select
    match,
    case
        when bool_or(fate = 'stands') then 'stands'
        when bool_or(fate = 'either') then 'either'
        else 'retracted'
    end as fate,
    null::bigint as overlap_start,
    null::bigint as overlap_end
from results anti join (select key as match from refusals where of_match) using (match)
group by match;
"""
TOO_LONG: Final = "delete from expected where octet_length(match) > ?"
VALUES: Final = """
select results.match, results.low, results.high, l.value, r.value, newest.value
from results
join (select match from judged where live) using (match)
join (
    from log qualify row_number() over (partition by match order by place desc) = 1
) as newest using (match)
left join (from events where side = 'left') as l
    on l.lane = results.lane and l.place = left_place
left join (from events where side = 'right') as r
    on r.lane = results.lane and r.place = right_place
where results.fate <> 'retracted'
order by results.match
"""
# Rows of a key in one partition on the left, in another one on the right.
APART: Final = """
select count(distinct key)
from (select distinct key from rows where side = 'left')
semi join (select key from rows where side = 'right') using (key)
anti join (
    select l.key as key from rows as l join rows as r using (key, lane)
    where l.side = 'left' and r.side = 'right'
) using (key)
"""
EXTRA: Final = "select match from judged where fate is null and live"
KNOWN: Final = """
select count(*) from split
where (left_part = ''::blob or left_part in (select part from rows where side = 'left'))
and (right_part = ''::blob or right_part in (select part from rows where side = 'right'))
"""
