import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { deflateSync } from "node:zlib";
import type { ExecutionContext } from "ava";
import type { Browser } from "playwright-core";
import { z } from "zod";
import { findProfile } from "../../modules/accounts/profiles.sql.ts";
import { normalizeLogo, encodePng } from "../../modules/dashboard/normalizeLogo.ts";
import { impactOf } from "../cli/runImpact.ts";
import type { DatabaseContext } from "../support/database.ts";
import { testWithDatabase } from "../support/database.ts";
import { eventually } from "../support/programs.ts";
import { createTestOrganization } from "../support/factories.ts";
import { makeTestFolder } from "../support/makeTestFolder.ts";
import { openBrowser } from "./browser.ts";
import { fillYear, openDashboard, serveAgain, setProfile } from "./dashboardScene.ts";

const test = testWithDatabase();

let browser: Browser;
test.before(async () => {
  browser = await openBrowser();
});
test.after.always(() => browser.close());

/** Encodes a picture as a browser does. */
const drawLogo = async (type: "png" | "jpeg" | "webp", side: number): Promise<Buffer> => {
  const page = await browser.newPage();
  const url: unknown = await page.evaluate(`(() => {
    const canvas = document.createElement("canvas");
    canvas.width = ${side}; canvas.height = ${side / 2};
    const drawing = canvas.getContext("2d");
    for (let x = 0; x < ${side}; x += 4) {
      drawing.fillStyle = "rgb(" + (x * 37) % 255 + ", " + (x * 91) % 255 + ", 80)";
      drawing.fillRect(x, 0, 4, ${side});
    }
    return canvas.toDataURL("image/${type}");
  })()`);
  await page.close();
  return Buffer.from(z.string().parse(url).split(",")[1] ?? "", "base64");
};

test.serial("logos of all three formats are redrawn as PNGs that fit the page", async (t) => {
  for (const type of ["png", "jpeg", "webp"] as const) {
    const logo = await normalizeLogo(await drawLogo(type, 1400));
    t.deepEqual([logo.width, logo.height], [480, 240], type);
    t.is(logo.png.subarray(1, 4).toString(), "PNG");
  }
  t.like(await normalizeLogo(await drawLogo("png", 100)), { width: 100, height: 50 });
});

test.serial("nothing of a logo's file is stored but its pixels", async (t) => {
  const file = Buffer.concat([
    await drawLogo("png", 100),
    Buffer.from("<script>alert(1)</script>"),
  ]);
  t.false((await normalizeLogo(file)).png.includes("script"));
});

/** A PNG that states a size and contains rows of zeros that compress a thousandfold. */
const bomb = (width: number, height: number): Buffer => {
  const file = encodePng(Buffer.alloc(4), 1, 1);
  const header = Buffer.from(file.subarray(0, 33));
  header.writeUInt32BE(width, 16);
  header.writeUInt32BE(height, 20);
  return Buffer.concat([header, deflateSync(Buffer.alloc(8 * 1024 * 1024))]);
};

const half = (file: Buffer): Buffer => file.subarray(0, file.length / 2);

const rejectsLogo = async (
  t: ExecutionContext<DatabaseContext>,
  file: Buffer,
  message: RegExp,
): Promise<void> => {
  await t.throwsAsync(normalizeLogo(file), { name: "DomainError", message });
};

test.serial("picture bombs, damaged files and other formats are rejected", async (t) => {
  await rejectsLogo(t, bomb(60_000, 60_000), /at most 4000000 pixels/u);
  await rejectsLogo(t, bomb(1000, 1000), /damaged/u);
  await rejectsLogo(t, Buffer.alloc(3 * 1024 * 1024), /at most 2 MiB/u);
  await rejectsLogo(t, encodePng(Buffer.alloc(20 * 20 * 4, 1), 20, 20), /at least 32/u);
  for (const type of ["png", "jpeg", "webp"] as const) {
    await rejectsLogo(t, half(await drawLogo(type, 200)), /damaged/u);
  }
  for (const text of [
    "<svg xmlns='http://www.w3.org/2000/svg' onload='alert(1)'/>",
    "GIF89a",
    "<!doctype html><script>",
    "",
  ]) {
    await rejectsLogo(t, Buffer.from(text), /must be a PNG, JPEG or WebP picture/u);
  }
});

test.serial("an operator sets the profile, and the page, card and JSON show it", async (t) => {
  const scene = await openDashboard(t, { name: "North Sea Outfitters Ltd." });
  await fillYear(t, scene);
  const { id } = scene.setup.organization;
  const folder = await makeTestFolder(t);
  const file = join(folder, "logo.webp");
  await writeFile(file, await drawLogo("webp", 200));
  const impact = impactOf(t);
  const brand = ["--display-name", "North Sea", "--logo", file, "--color", "#FD0"];
  const texts = [
    "--home-url",
    "https://northsea.example/about",
    "--story",
    "First.\n\nSecond & last.",
  ];
  const options = [...brand, ...texts, "--hide", "donations, carbon"];
  const updated = await impact("org", "update", id, ...options);
  t.is(updated.exitCode, 0, updated.stderr);
  t.regex(updated.stderr, /#ffdd00 has a contrast of 1\.\d to the page in light mode/u);

  const html = await (await fetch(scene.page)).text();
  t.true(html.includes("<h1><bdi>North Sea</bdi></h1>"));
  t.true(html.includes('href="https://northsea.example/about"'));
  t.regex(html, /<p dir="auto">First\.<\/p>\s*<p dir="auto">Second &amp; last\.<\/p>/u);
  t.notRegex(html, /[Dd]onated|[Pp]rojected/u);
  t.true(
    (await (await fetch(`${scene.page}/card`)).text()).includes("<h1><bdi>North Sea</bdi></h1>"),
  );
  const json = z
    .looseObject({ name: z.string(), logo_url: z.url(), donations: z.null() })
    .parse(await (await fetch(`${scene.page}.json`)).json());
  t.is(json.name, "North Sea");

  const logo = await fetch(json.logo_url);
  t.is(logo.status, 200);
  t.is(logo.headers.get("Content-Type"), "image/png");
  t.is(logo.headers.get("Cache-Control"), "public, max-age=31536000, immutable");
  t.is(logo.headers.get("X-Content-Type-Options"), "nosniff");
  t.regex(logo.headers.get("Content-Security-Policy") ?? "", /^default-src 'none'.*sandbox/u);

  const shown = await impact("org", "show", id, "--json");
  t.like(JSON.parse(shown.stdout), {
    profile: {
      display_name: "North Sea",
      color: "#ffdd00",
      hidden_sections: ["donations", "carbon"],
    },
  });
  const audit = await impact("audit", "list", "--account", id, "--json");
  t.regex(audit.stdout, /"home_url": "https:\/\/northsea\.example\/about"/u);
});

test.serial("`none` restores the default, and an unused logo is deleted", async (t) => {
  const scene = await openDashboard(t);
  const logo = await normalizeLogo(await drawLogo("png", 100));
  await setProfile(t, scene, { displayName: "Brand", color: "#123456", logo });
  const { id } = scene.setup.organization;
  const other = await createTestOrganization(t.context.db);
  const impact = impactOf(t);
  const none = ["--display-name", "none", "--logo", "none", "--color", "none"];
  t.is((await impact("org", "update", id, ...none)).exitCode, 0);
  t.deepEqual(await findProfile(t.context.db, id), await findProfile(t.context.db, other.id));
  t.is((await fetch(`${scene.url}/media/logos/${logo.hash}.png`)).status, 404);
});

test.serial("unsafe profiles are rejected with what is accepted", async (t) => {
  const { id } = await createTestOrganization(t.context.db);
  const impact = impactOf(t);
  for (const [option, value, message] of [
    ["--home-url", "http://shop.example/", /an https URL/u],
    ["--home-url", "javascript:alert(1)", /an https URL/u],
    ["--home-url", "https://user:word@shop.example/", /an https URL/u],
    ["--color", "red", /such as #1c6b47/u],
    ["--display-name", "two\nlines", /in one line/u],
    ["--display-name", "x".repeat(81), /1 to 80 characters/u],
    ["--story", "x".repeat(1201), /1 to 1200 characters/u],
    ["--story", "a\u202Eb", /plain text/u],
    ["--hide", "trees", /bottles, donations, carbon, months, sites, photos/u],
    ["--logo", "/nowhere.png", /cannot be read/u],
  ] as const) {
    const { exitCode, stderr } = await impact("org", "update", id, option, value);
    t.is(exitCode, 2, value);
    t.regex(stderr, message, value);
  }
});

const maxAgeOf = (response: Response | undefined): number =>
  Number(/^public, max-age=(\d+)$/u.exec(response?.headers.get("Cache-Control") ?? "")?.[1]);

test.serial("the preview is a PNG of the page's numbers, drawn for pages that exist", async (t) => {
  const scene = await openDashboard(t, { name: "Ünïcode & <Söns>" });
  await fillYear(t, scene);
  const html = await (await fetch(scene.page)).text();
  const [, url] = /property="og:image" content="([^"]+)"/u.exec(html) ?? [];
  t.is(url, `${scene.page}/preview.png`);
  const previews = await Promise.all(
    Array.from({ length: 30 }, () => fetch(`${scene.page}/preview.png`)),
  );
  t.true(previews.every(({ status }) => status === 200));
  const [first] = previews;
  const maxAge = maxAgeOf(first);
  t.true(maxAge > 0 && maxAge <= 600, `${maxAge}`);
  // The picture stays, and what remains of its ten minutes becomes less.
  await eventually(async () => maxAgeOf(await fetch(`${scene.page}/preview.png`)) < maxAge);
  const file = Buffer.from((await first?.arrayBuffer()) ?? new ArrayBuffer());
  t.deepEqual([file.readUInt32BE(16), file.readUInt32BE(20)], [1200, 630]);
  t.is((await fetch(`${scene.url}/dashboard/made-up-slug/preview.png`)).status, 404);
  // A name in another script is left out, and the picture still drawn.
  await setProfile(t, scene, { displayName: "森林 🌳" });
  t.is((await fetch(`${await serveAgain(t, scene)}/preview.png`)).status, 200);
});
