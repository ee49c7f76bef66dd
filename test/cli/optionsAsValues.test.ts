import test from "ava";
import { runImpact } from "./runImpact.ts";

const ID = "0198c5de-7c1f-7b52-a3a1-3f1f9a0c9e11";

for (const [args, missing] of [
  [["org", "create", "--name", "--json"], "--name <name>' argument missing: --json is an option"],
  [
    ["webhook", "create", "--org", ID, "--mode", "live", "--url", "--description=x"],
    "--url <url>' argument missing: --description=x is an option",
  ],
] as const) {
  test(`impact ${args.join(" ")} is a usage error`, async (t) => {
    const { exitCode, stdout, stderr } = await runImpact(args);
    t.is(exitCode, 2);
    t.is(stdout, "");
    t.true(stderr.includes(missing), stderr);
  });
}

test("a value that begins with dashes and is no option is accepted", async (t) => {
  const { stderr } = await runImpact(["org", "create", "--name", "-- the shop --"]);
  t.notRegex(stderr, /argument missing/u);
});
