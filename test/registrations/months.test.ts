import test from "ava";
import { monthOf } from "../../domain/registrations/registrations.ts";

test("the month of a time is its month in UTC, to the last millisecond", (t) => {
  t.is(monthOf(new Date("2026-02-28T23:59:59.999Z")), "2026-02");
  t.is(monthOf(new Date("2026-03-01T00:00:00.000Z")), "2026-03");
  t.is(monthOf(new Date("2027-01-01T00:30:00.000+01:00")), "2026-12");
});
