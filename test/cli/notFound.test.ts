import { testWithDatabase } from "../support/database.ts";
import { runImpact } from "./runImpact.ts";

const test = testWithDatabase();

const ID = "0198c5de-7c1f-7b52-a3a1-3f1f9a0c9e11";
const BECAUSE = ["--reason", "ticket 12"] as const;

test("what does not exist is named with the command that finds it", async (t) => {
  const env = { DATABASE_URL: t.context.databaseUrl };
  const runs: readonly (readonly [args: readonly string[], message: string])[] = [
    [["org", "show", ID], `organization ${ID} not found; see \`impact org list\``],
    ...[
      ["audit", "list", "--account", ID],
      ["evidence", "order", "list", "--org", ID],
      ["refund", "registrations", "--org", ID, "--attribution", "x", ...BECAUSE, "--dry-run"],
    ].map(
      (args) =>
        [
          args,
          `organization or store ${ID} not found; see \`impact org list\` and \`impact store list\``,
        ] as const,
    ),
    [["key", "revoke", ID, ...BECAUSE], `key ${ID} not found; see \`impact key list\``],
    [["usage", "show", ID], `registration ${ID} not found; search with \`impact find\``],
    [["donation", "show", ID], `donation ${ID} not found; search with \`impact find\``],
    [
      ["refund", "donation", ID, ...BECAUSE],
      `donation ${ID} not found; search with \`impact find\``,
    ],
    [
      ["evidence", "withdraw", "999", ...BECAUSE],
      "fact 999 not found; see `impact evidence order show`",
    ],
    [
      ["deployment", "retry-event", "evt_1", ...BECAUSE],
      "event evt_1 not found; see `impact deployment list-events`",
    ],
    [
      ["charity", "show", "99-9999999"],
      "EIN 99-9999999 not found in the catalogue. See impact charity search.",
    ],
  ];
  for (const [args, message] of runs) {
    const { exitCode, stderr } = await runImpact(args, { env });
    t.is(exitCode, 3, args.join(" "));
    t.is(stderr, `impact: ${message}\n`);
  }
});

test("a search for charities without a name is a usage error", async (t) => {
  const env = { DATABASE_URL: t.context.databaseUrl };
  for (const name of ["", " "]) {
    const { exitCode, stderr } = await runImpact(["charity", "search", name], { env });
    t.is(exitCode, 2);
    t.regex(stderr, /Must be 1 to 500 characters\./u);
  }
});
