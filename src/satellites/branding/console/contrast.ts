/** Contrast of two colours, as WCAG 2.2 defines it. */

export const MIN_RATIO = 4.5
const COLOUR = /^#[0-9a-f]{6}$/i

export const isColour = (text: unknown): text is string => typeof text === 'string' && COLOUR.test(text)

/** Ratio from 1 to 21. @param first @param second as `#rrggbb` @example contrastOf('#000000', '#ffffff') // 21 */
export function contrastOf(first: string, second: string): number {
  const [lighter = 0, darker = 0] = [luminanceOf(first), luminanceOf(second)].toSorted((a, b) => b - a)
  return (lighter + 0.05) / (darker + 0.05)
}

function luminanceOf(colour: string): number {
  const [red = 0, green = 0, blue = 0] = [1, 3, 5].map((at) => {
    const share = Number.parseInt(colour.slice(at, at + 2), 16) / 255
    return share <= 0.040_45 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4
  })
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue
}
