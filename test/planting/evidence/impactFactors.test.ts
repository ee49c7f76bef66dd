import test from "ava";
import { presentEvidenceSummary } from "../../../api/endpoints/presentEvidenceSummary.ts";
import {
  factorFor,
  IMPACT_FACTORS,
  projectGenericCo2Kg,
  projectImpact,
} from "../../../modules/planting/impactFactors.rules.ts";

const idOf = (region: string): string | undefined =>
  presentEvidenceSummary(
    {
      registeredTrees: 1,
      planted: [],
      isSimulated: false,
      regions: [{ region, country: "A", media: [] }],
    },
    "https://impact.example",
  ).regions[0]?.id;

test("the id of a region keeps the signs and accents of its letters, however they are written", (t) => {
  t.is(idOf("केरल"), "a-केरल");
  t.is(idOf("กำแพงเพชร"), "a-กำแพงเพชร");
  t.is(idOf("São Tomé (North)"), "a-são-tomé-north-");
  t.is(idOf("São Tomé".normalize("NFD")), idOf("São Tomé".normalize("NFC")));
});

const now = new Date("2026-05-01T00:00:00Z");

test("each type of forest has a factor for every time since 1970", (t) => {
  for (const at of [new Date(0), now]) {
    t.is(factorFor("mangrove", at).id, "mangrove-1");
    t.is(factorFor("terrestrial", at).id, "terrestrial-1");
  }
  t.throws(() => factorFor("mangrove", new Date(-1)), { instanceOf: RangeError });
});

test("factors have unique ids, and those of one type are sorted by time", (t) => {
  t.is(new Set(IMPACT_FACTORS.map(({ id }) => id)).size, IMPACT_FACTORS.length);
  for (const kind of ["mangrove", "terrestrial"] as const) {
    const starts = IMPACT_FACTORS.filter(({ forestType }) => forestType === kind).map(
      ({ effectiveFrom }) => effectiveFrom.getTime(),
    );
    t.deepEqual(
      starts,
      starts.toSorted((a, b) => a - b),
    );
  }
});

test("tons and hectares are summed over the factors and rounded to three decimals", (t) => {
  t.deepEqual(projectImpact([]), { carbonTons: 0, areaHectares: 0 });
  t.deepEqual(projectImpact([{ factorId: "mangrove-1", trees: 10_000 }]), {
    carbonTons: 3080,
    areaHectares: 1,
  });
  t.deepEqual(
    projectImpact([
      { factorId: "mangrove-1", trees: 1 },
      { factorId: "terrestrial-1", trees: 1 },
      { factorId: "terrestrial-1", trees: 555 },
    ]),
    { carbonTons: 111.508, areaHectares: 0.5 },
  );
  t.throws(() => projectImpact([{ factorId: "mangrove-0", trees: 1 }]), { instanceOf: RangeError });
});

test("trees without a known site count as terrestrial", (t) => {
  t.is(projectGenericCo2Kg(3, now), 600);
});
