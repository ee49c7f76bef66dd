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
import { LOGO, openDashboard, readPage } from "./dashboardScene.ts";
import {
  BACKGROUNDS,
  brandColorsOf,
  contrastOf,
  LEAST_CONTRAST,
  parseColor,
} from "../../modules/accounts/brandColor.rules.ts";
import { readLogo } from "../../modules/accounts/readLogo.ts";

const test = testWithDatabase();

test.serial("an operator sets the profile, and the page, card and JSON show it", async (t) => {
  const scene = await openDashboard(t, { name: "North Sea Outfitters Ltd." });
  await scene.fillYear();
  const { id } = scene.organization;
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
  const updated = await impact.ok("org", "update", id, ...options.flat());
  t.regex(updated.stdout, /First\. Second & last\./u);

  const html = await (await fetch(scene.page)).text();
  t.true(html.includes("<h1><bdi>North Sea</bdi></h1>"));
  t.regex(html, /href="https:\/\/northsea\.example\/about"[^>]*>northsea\.example</u);
  t.regex(html, /<p dir="auto">First\.<\/p>\s*<p dir="auto">Second &amp; last\.<\/p>/u);
  t.notRegex(html, /[Dd]onated|Month by month/u);
  const card = await (await fetch(`${scene.page}/card`)).text();
  t.true(card.includes("<h1><bdi>North Sea</bdi></h1>"));
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
  t.is(LOGO.width, LOGO.file.readUInt32BE(16));

  const given = { display_name: "North Sea", color: "#ffdd00", shows_carbon: false };
  const profile = { ...given, hidden_sections: ["donations", "months"] };
  t.like(await impact.json("org", "show", id), { profile });
  const audit = await impact("audit", "list", "--org", id, "--json");
  t.regex(audit.stdout, /"home_url": "https:\/\/northsea\.example\/about"/u);
});

test.serial("projected carbon is shown only if an operator switches it on", async (t) => {
  const { fillYear, serveAgain, organization } = await openDashboard(t);
  await fillYear();
  t.notRegex(await readPage(await serveAgain()), /[Pp]rojected|CO₂/u);
  await impactOf(t).ok("org", "update", organization.id, "--carbon", "on");
  const shown = await readPage(await serveAgain());
  t.regex(shown, /Projected lifetime CO₂<\/h3> <span class="number letters-\d">[\d,]+ t</u);
  t.regex(shown, /a projection over the lifetime of a tree, neither a measurement/u);
  t.regex(shown, /(?:Mangrove: 308|Terrestrial: 200) kg CO<sub>2<\/sub> per tree/u);
});

test.serial("`none` restores the default, and the logo is gone", async (t) => {
  const scene = await openDashboard(t);
  const hash = "ab".repeat(32);
  await scene.setProfile({ displayName: "Brand", color: "#123456", logo: { ...LOGO, hash } });
  const { id } = scene.organization;
  const none = ["--display-name", "none", "--logo", "none", "--color", "none"];
  await impactOf(t).ok("org", "update", id, ...none);
  t.deepEqual(await findProfile(t.context.db, id), DEFAULT_PROFILE);
  t.is((await fetch(`${scene.url}/media/logos/${hash}`)).status, 404);
});

test.serial("unsafe profiles are rejected with what is accepted", async (t) => {
  const { id } = await createTestOrganization(t.context.db);
  const impact = impactOf(t);
  const text = join(await makeTestFolder(t), "logo.png");
  await writeFile(text, "<script>");
  const cases = [
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
    ["--logo", text, /must be a PNG, JPEG or WebP picture/u],
    ["--logo", "/dev/zero", /at most 512 KiB/u],
  ] as const;
  for (const [option, value, message] of cases) {
    t.regex(await impact.fails(2, "org", "update", id, option, value), message, value);
  }
});

test("contrasts are those of WCAG", (t) => {
  t.is(contrastOf("#000000", "#ffffff"), 21);
  t.is(contrastOf("#abcdef", "#abcdef"), 1);
  // A value that WCAG's own examples give.
  t.is(contrastOf("#767676", "#ffffff").toFixed(2), "4.54");
});

test("every color is legible on every background of both modes", (t) => {
  const levels = ["00", "40", "80", "c0", "ff"];
  const colors = levels.flatMap((red) =>
    levels.flatMap((green) => levels.map((blue) => `#${red}${green}${blue}`)),
  );
  for (const color of colors) {
    const used = brandColorsOf(color);
    for (const appearance of ["light", "dark"] as const) {
      for (const background of Object.values(BACKGROUNDS[appearance])) {
        t.true(contrastOf(used[appearance], background) >= LEAST_CONTRAST, color);
      }
    }
  }
});

test("a legible color stays as it is", (t) => {
  t.is(brandColorsOf("#1c6b47").light, "#1c6b47");
  t.not(brandColorsOf("#ffd400").light, "#ffd400");
  t.is(brandColorsOf("#ffd400").dark, "#ffd400");
  t.not(brandColorsOf("#000000").dark, "#000000");
});

test("colors are read in both notations, and nothing else is a color", (t) => {
  t.is(parseColor("#0A7"), "#00aa77");
  t.is(parseColor("#00AA77"), "#00aa77");
  for (const given of ["red", "#12", "#1234", "#12345g", "#1c6b47;}body{display:none}", ""]) {
    t.is(parseColor(given), null, given);
  }
});

const uint16 = (value: number): string => String.fromCodePoint(value >> 8, value % 256);
const latin1 = (...parts: readonly string[]): Buffer => Buffer.from(parts.join(""), "latin1");

/** Pictures with these sides and with what a decoder would read left out. */
const pictures = {
  png: (width: number, height: number) =>
    latin1(
      "\u0089PNG\r\n\u001A\n\0\0\0\rIHDR",
      `\0\0${uint16(width)}\0\0${uint16(height)}`,
      "\0\0\0\0IEND\u00AEB`\u0082",
    ),
  jpeg: (width: number, height: number) =>
    latin1(
      // A comment, a fill byte, and the frame.
      "\u00FF\u00D8\u00FF\u00FE\0\u0010comment longer",
      `\u00FF\u00FF\u00C2\0\u000B\b${uint16(height)}${uint16(width)}\u0001\0\0\0`,
      "\u00FF\u00D9",
    ),
  "lossy webp": (width: number, height: number) => {
    const file = latin1("RIFF\u001C\0\0\0WEBPVP8 ", "\0".repeat(20));
    file.writeUInt16LE(width, 26);
    file.writeUInt16LE(height, 28);
    return file;
  },
  "lossless webp": (width: number, height: number) => {
    const file = latin1("RIFF\u001C\0\0\0WEBPVP8L", "\0".repeat(20));
    file.writeUInt32LE((height - 1) * 0x40_00 + width - 1, 21);
    return file;
  },
  "extended webp": (width: number, height: number) => {
    const file = latin1("RIFF\u001C\0\0\0WEBPVP8X", "\0".repeat(20));
    file.writeUIntLE(width - 1, 24, 3);
    file.writeUIntLE(height - 1, 27, 3);
    return file;
  },
} as const;

for (const [name, draw] of Object.entries(pictures)) {
  test(`a ${name} logo is recognized by its content, with its size`, (t) => {
    const file = draw(300, 100);
    t.like(readLogo(file), { type: name.split(" ").at(-1), width: 300, height: 100, file });
    t.throws(() => readLogo(draw(4000, 4000)), { message: /at most 4000000 pixels/u });
    t.throws(() => readLogo(draw(300, 31)), { message: /at least 32/u });
    const damaged = /is damaged, or has other data after the picture/u;
    t.throws(() => readLogo(file.subarray(0, -1)), { message: damaged });
    t.throws(() => readLogo(latin1(file.toString("latin1"), "<script>")), { message: damaged });
  });
}

test("other files and large ones are rejected as logos", (t) => {
  for (const text of [
    "<svg xmlns='http://www.w3.org/2000/svg' onload='alert(1)'/>",
    "GIF89a",
    "<!doctype html><script>",
    "\u0089PNG\r\n\u001A\n",
    "\u00FF\u00D8\u00FF",
    "",
  ]) {
    const message = /must be a PNG, JPEG or WebP picture/u;
    t.throws(() => readLogo(latin1(text)), { name: "DomainError", message });
  }
  t.throws(() => readLogo(Buffer.alloc(512 * 1024 + 1)), { message: /at most 512 KiB/u });
});
