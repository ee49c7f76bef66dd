import test from "ava";
import {
  evidenceSummary,
  renderEvidenceSummary,
} from "../../../api/planting/presentEvidenceSummary.ts";

const idOf = (region: string): string | undefined =>
  evidenceSummary.parse(
    JSON.parse(
      renderEvidenceSummary(
        {
          registeredTrees: 1,
          plantedTrees: 1,
          simulatedTrees: 0,
          projected: { carbonTons: 0, areaHectares: 0 },
          regions: [{ region, country: "A", isSimulated: false, media: [] }],
        },
        "https://impact.example",
      ),
    ),
  ).regions[0]?.id;

test("the id of a region keeps the vowel signs and accents of its letters", (t) => {
  t.is(idOf("केरल"), "a-केरल");
  t.is(idOf("กำแพงเพชร"), "a-กำแพงเพชร");
  t.is(idOf("São Tomé (North)"), "a-são-tomé-north-");
});

test("a region has one id, whether its accents are combining characters or not", (t) => {
  t.is(idOf("São Tomé".normalize("NFD")), idOf("São Tomé".normalize("NFC")));
});
