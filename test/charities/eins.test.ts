import test from "ava";
import { formatEin, parseEin } from "../../modules/charities/charities.rules.ts";

const parses = test.macro({
  exec: (t, written: string, ein: string | null) => t.is(parseEin(written), ein),
  title: (_, written) => `as an EIN, ${JSON.stringify(written)}`,
});

const RED_CROSS = "530196605";
test(parses, "530196605", RED_CROSS);
test(parses, "53-0196605", RED_CROSS);
test(parses, " 53 0196605 ", RED_CROSS);
test(parses, "53 - 0196605", RED_CROSS);
test(parses, "EIN 53-0196605", RED_CROSS);
test(parses, "ein: 530196605", RED_CROSS);
test(parses, "EIN# 530196605", RED_CROSS);
test(parses, "EIN530196605", RED_CROSS);
test(parses, "53\u00A00196605", RED_CROSS);
for (const hyphen of ["\u2010", "\u2011", "\u2012", "\u2013", "\u2014", "\u2015", "\u2212"]) {
  test(parses, `53${hyphen}0196605`, RED_CROSS);
}
test(parses, "10202467", "010202467");
test(parses, "1-0202467", "010202467");
test(parses, "EIN 10202467", "010202467");
test(parses, "", null);
test(parses, "EIN", null);
test(parses, "53-019660", null);
test(parses, "5301966", null);
test(parses, "5301966050", null);
test(parses, "53-O196605", null);
test(parses, "VEIN 530196605", null);
test(parses, "٥٣٠١٩٦٦٠٥", null);

test("an EIN is shown with its dash", (t) => {
  t.is(formatEin(RED_CROSS), "53-0196605");
});
