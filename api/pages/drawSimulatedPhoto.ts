import { chooseBySeed } from "../../modules/planting/seededChoice.rules.ts";

const SCENES = [
  ["#bfe0ee", "#86a06a", "#2f7a4b"],
  ["#9fcbe6", "#7f9a74", "#3f8f4f"],
  ["#f3c9a1", "#97a872", "#4a8a3a"],
  ["#c9d8e8", "#6f9583", "#2d6e57"],
] as const;

/** Draws a placeholder for a photo, labelled as simulated. The same seed always gives the same picture. */
export const drawSimulatedPhoto = (seed: string): string => {
  const choice = chooseBySeed(seed);
  const [sky, field, leaf] = choice.pick(SCENES);
  const horizon = choice.between(215, 260);
  const seedlings = [9, 8, 7, 6].flatMap((count, row) =>
    Array.from({ length: count }, (_, index) => {
      const x = Math.round(((index + 0.5) / count) * 640) + choice.between(-14, 14);
      const y = horizon + 45 + row * row * 13 + row * 24 + choice.between(-4, 4);
      const size = (16 + row * 15 + choice.between(-4, 6)) / 10;
      return `<use href="#seedling" transform="translate(${x} ${y}) scale(${size})"/>`;
    }),
  );
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 640 480" width="640" height="480">
<defs><linearGradient id="sky" x2="0" y2="1"><stop stop-color="${sky}"/><stop offset="1" stop-color="#f2efe2"/></linearGradient><linearGradient id="soil" x2="0" y2="1"><stop stop-color="${field}"/><stop offset="1" stop-color="#6c4f37"/></linearGradient>
<g id="seedling"><path d="M0 0V-10" stroke="#5a4630" stroke-width=".8"/><path fill="${leaf}" d="M0-14Q4-10 0-7-4-10 0-14M0-3.5q4-4 6.300-.8-3 2.5-6.300.8q-4-4-6.300-.8 3 2.5 6.300.8"/></g></defs>
<path fill="url(#sky)" d="M0 0h640v480H0z"/>
<circle cx="${choice.between(70, 570)}" cy="${choice.between(50, 130)}" r="${choice.between(24, 40)}" fill="#fff6d8" fill-opacity=".85"/>
<path fill="${field}" opacity=".6" d="M0 ${horizon + 10}q${choice.between(80, 240)}-110 330-30q${choice.between(80, 240)}-90 310 30"/>
<path fill="url(#soil)" d="M0 ${horizon + 10}H640V480H0z"/>
${seedlings.join("")}
<rect x="14" y="438" width="132" height="28" rx="14" fill="#10160f" fill-opacity=".62"/><text x="80" y="457" fill="#fff" font-family="system-ui,sans-serif" font-size="14" text-anchor="middle">Simulated photo</text>
</svg>
`;
};
