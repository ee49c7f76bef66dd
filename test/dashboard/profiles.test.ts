import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { z } from "zod";
import { findProfile } from "../../modules/accounts/profiles.sql.ts";
import { DEFAULT_PROFILE } from "../../modules/accounts/profile.rules.ts";
import { impactOf } from "../cli/runImpact.ts";
import { testWithDatabase } from "../support/database.ts";
import { createTestOrganization } from "../support/factories.ts";
import { makeTestFolder } from "../support/makeTestFolder.ts";
import { fillYear, LOGO, openDashboard, serveAgain, setProfile } from "./dashboardScene.ts";

const test = testWithDatabase();

test.serial("an operator sets the profile, and the page, card and JSON show it", async (t) => {
  const scene = await openDashboard(t, { name: "North Sea Outfitters Ltd." });
  await fillYear(t, scene);
  const { id } = scene.setup.organization;
  const logoFile = fileURLToPath(new URL("../../embedded/demo/logo.png", import.meta.url));
  const impact = impactOf(t);
  const options = [
    ["--display-name", "North Sea"],
    ["--logo", logoFile],
    ["--color", "#FD0"],
    ["--home-url", "https://northsea.example/about"],
    ["--story", "First.\n\nSecond & last."],
    ["--hide", "donations, months"],
  ];
  const updated = await impact("org", "update", id, ...options.flat());
  t.is(updated.exitCode, 0, updated.stderr);
  t.regex(updated.stderr, /#ffdd00 has a contrast of 1\.\d to the page in light mode/u);

  const html = await (await fetch(scene.page)).text();
  t.true(html.includes("<h1><bdi>North Sea</bdi></h1>"));
  t.true(html.includes('href="https://northsea.example/about"'));
  t.regex(html, /<p dir="auto">First\.<\/p>\s*<p dir="auto">Second &amp; last\.<\/p>/u);
  t.notRegex(html, /[Dd]onated|Month by month/u);
  t.true(
    (await (await fetch(`${scene.page}/card`)).text()).includes("<h1><bdi>North Sea</bdi></h1>"),
  );
  const json = z
    .looseObject({ name: z.string(), logo_url: z.url(), donations: z.null() })
    .parse(await (await fetch(`${scene.page}.json`)).json());
  t.is(json.name, "North Sea");
  t.true(html.includes(`<meta property="og:image" content="${json.logo_url}" />`));

  const logo = await fetch(json.logo_url);
  t.is(logo.status, 200);
  t.is(logo.headers.get("Content-Type"), "image/png");
  t.is(logo.headers.get("Cache-Control"), "public, max-age=31536000, immutable");
  t.is(logo.headers.get("X-Content-Type-Options"), "nosniff");
  t.regex(logo.headers.get("Content-Security-Policy") ?? "", /^default-src 'none'.*sandbox/u);
  t.deepEqual(Buffer.from(await logo.arrayBuffer()), LOGO.file);

  const shown = await impact("org", "show", id, "--json");
  t.like(JSON.parse(shown.stdout), {
    profile: {
      display_name: "North Sea",
      color: "#ffdd00",
      hidden_sections: ["donations", "months"],
      shows_carbon: false,
    },
  });
  const audit = await impact("audit", "list", "--account", id, "--json");
  t.regex(audit.stdout, /"home_url": "https:\/\/northsea\.example\/about"/u);
});

test.serial("projected carbon is shown only if an operator switches it on", async (t) => {
  const scene = await openDashboard(t);
  await fillYear(t, scene);
  const readText = async (): Promise<string> => (await fetch(await serveAgain(t, scene))).text();
  t.notRegex(await readText(), /[Pp]rojected|CO₂/u);
  const impact = impactOf(t);
  t.is((await impact("org", "update", scene.setup.organization.id, "--carbon", "on")).exitCode, 0);
  const shown = (await readText()).replaceAll(/\s+/gu, " ");
  t.regex(shown, /Projected lifetime CO₂<\/h3> <span class="number letters-\d">[\d,]+ t</u);
  t.regex(shown, /a projection over the lifetime of a tree, neither a measurement/u);
  t.regex(shown, /Mangrove: 308 kg CO<sub>2<\/sub> per tree/u);
});

test.serial("`none` restores the default, and the logo is gone", async (t) => {
  const scene = await openDashboard(t);
  const hash = "ab".repeat(32);
  const logo = { ...LOGO, hash };
  await setProfile(t, scene, { displayName: "Brand", color: "#123456", logo });
  const { id } = scene.setup.organization;
  const none = ["--display-name", "none", "--logo", "none", "--color", "none"];
  t.is((await impactOf(t)("org", "update", id, ...none)).exitCode, 0);
  t.deepEqual(await findProfile(t.context.db, id), DEFAULT_PROFILE);
  t.is((await fetch(`${scene.url}/media/logos/${hash}`)).status, 404);
});

test.serial("unsafe profiles are rejected with what is accepted", async (t) => {
  const { id } = await createTestOrganization(t.context.db);
  const impact = impactOf(t);
  const text = join(await makeTestFolder(t), "logo.png");
  await writeFile(text, "<script>");
  const cases: readonly (readonly [string, string, RegExp, number?])[] = [
    ["--home-url", "http://shop.example/", /an https URL/u],
    ["--home-url", "javascript:alert(1)", /an https URL/u],
    ["--home-url", "https://user:word@shop.example/", /an https URL/u],
    ["--color", "red", /such as #1c6b47/u],
    ["--display-name", "two\nlines", /in one line/u],
    ["--display-name", "x".repeat(81), /1 to 80 characters/u],
    ["--story", "x".repeat(1201), /1 to 1200 characters/u],
    ["--story", "a\u202Eb", /plain text/u],
    ["--hide", "trees", /bottles, donations, months, sites, photos/u],
    ["--logo", "/nowhere.png", /cannot be read/u],
    ["--logo", text, /must be a PNG, JPEG or WebP picture/u, 1],
    ["--logo", "/dev/zero", /at most 512 KiB/u, 1],
  ];
  for (const [option, value, message, expected = 2] of cases) {
    const { exitCode, stderr } = await impact("org", "update", id, option, value);
    t.is(exitCode, expected, value);
    t.regex(stderr, message, value);
  }
});
