import { chooseBySeed } from "../../modules/planting/seededChoice.rules.ts";

const WIDTH = 640;
const HEIGHT = 480;

const SKIES = [
  ["#bfe0ee", "#f4efdc"],
  ["#9fcbe6", "#e8f1ea"],
  ["#f3c9a1", "#f8eadb"],
  ["#c9d8e8", "#eef0ea"],
] as const;
const GROUNDS = [
  ["#86a06a", "#6c4f37"],
  ["#7f9a74", "#5d4632"],
  ["#97a872", "#77573b"],
  ["#6f9583", "#4f4638"],
] as const;
const LEAVES = ["#2f7a4b", "#3f8f4f", "#4a8a3a", "#2d6e57"];

const seedling = (x: number, y: number, size: number, leaf: string): string => {
  const top = y - size;
  const half = size / 2.4;
  return (
    `<path d="M${x} ${y}V${top}" stroke="#5a4630" stroke-width="${(size / 14).toFixed(1)}"/>` +
    `<path fill="${leaf}" d="M${x} ${top - half}Q${x + half} ${top} ${x} ${top + half * 0.7}Q${x - half} ${top} ${x} ${top - half}Z"/>` +
    `<path fill="${leaf}" fill-opacity=".85" d="M${x} ${y - size * 0.35}q${half * 0.9} ${-half * 0.9} ${half * 1.5} ${-half * 0.2}q${-half * 0.7} ${half * 0.6} ${-half * 1.5} ${half * 0.2}Zm0 0q${-half * 0.9} ${-half * 0.9} ${-half * 1.5} ${-half * 0.2}q${half * 0.7} ${half * 0.6} ${half * 1.5} ${half * 0.2}Z"/>`
  );
};

/** Draws a placeholder for a photo, labelled as simulated. The same seed always gives the same picture. */
export const drawSimulatedPhoto = (seed: string): string => {
  const choice = chooseBySeed(seed);
  const [sky, haze] = choice.pick(SKIES);
  const [field, soil] = choice.pick(GROUNDS);
  const horizon = choice.between(215, 260);
  /** A chain of hills behind the field. */
  const hills = (base: number, height: number): string =>
    Array.from({ length: 5 }, (_, index) => {
      const rise = choice.between(Math.round(height / 4), height);
      return `<ellipse cx="${index * 160 + choice.between(-40, 40)}" cy="${base}" rx="${choice.between(110, 190)}" ry="${rise}"/>`;
    }).join("");
  const rows = Array.from({ length: 4 }, (_, row) => {
    const y = horizon + 45 + row * row * 13 + row * 24;
    const size = 16 + row * 15;
    const count = 9 - row;
    return Array.from({ length: count }, (__, index) =>
      seedling(
        Math.round(((index + 0.5) / count) * WIDTH + choice.between(-14, 14)),
        y + choice.between(-4, 4),
        size + choice.between(-4, 6),
        choice.pick(LEAVES),
      ),
    ).join("");
  }).join("");
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${HEIGHT}" width="${WIDTH}" height="${HEIGHT}">
<defs><linearGradient id="sky" x2="0" y2="1"><stop stop-color="${sky}"/><stop offset="1" stop-color="${haze}"/></linearGradient><linearGradient id="soil" x2="0" y2="1"><stop stop-color="${field}"/><stop offset="1" stop-color="${soil}"/></linearGradient></defs>
<path fill="url(#sky)" d="M0 0h${WIDTH}v${HEIGHT}H0z"/>
<circle cx="${choice.between(70, 570)}" cy="${choice.between(50, 130)}" r="${choice.between(24, 40)}" fill="#fff6d8" fill-opacity=".85"/>
<g fill="${field}" opacity=".45">${hills(horizon + 14, 100)}</g>
<g fill="${field}" opacity=".8">${hills(horizon + 14, 50)}</g>
<path fill="url(#soil)" d="M0 ${horizon + 10}H${WIDTH}V${HEIGHT}H0z"/>
${rows}
<rect x="14" y="${HEIGHT - 42}" width="132" height="28" rx="14" fill="#10160f" fill-opacity=".62"/><text x="80" y="${HEIGHT - 23}" fill="#fff" font-family="system-ui,sans-serif" font-size="14" text-anchor="middle">Simulated photo</text>
</svg>
`;
};
