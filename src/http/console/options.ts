/** Options of the console: name, logo, accent and links of the host. */
import { z } from 'zod'

/** WCAG 2.2, text on the accent. */
const MIN_CONTRAST = 4.5

export const ConsoleOptions = z.strictObject({
  /** Name of the product; default `Tenantry`. */
  name: z.string().trim().min(1).max(60).optional(),
  /** Image as a `data:` URL: the page loads nothing from other origins. */
  logo: z
    .string()
    .max(64 * 1024)
    .regex(/^data:image\/(png|webp|jpeg|svg\+xml)[;,]/, 'must be a data: URL of an image')
    .optional(),
  /** Colour of the brand: `#4338ca`. White text on it must be legible. */
  accent: z
    .string()
    .regex(/^#[0-9a-f]{6}$/i, 'must be a colour as #rrggbb')
    .refine(
      (colour) => contrastWithWhite(colour) >= MIN_CONTRAST,
      `must have a contrast of at least ${MIN_CONTRAST}:1 with white`,
    )
    .optional(),
  /** Links from a tenant to systems of the host. `{id}` is the id of the tenant: `https://backoffice.example/customers/{id}`. */
  links: z
    .array(
      z.strictObject({
        title: z.string().trim().min(1).max(60),
        url: z.string().regex(/^https:\/\/./, 'must be an https URL'),
      }),
    )
    .max(10)
    .optional(),
  /** Path below the prefix to which a button of the console without tenants posts. The host creates sample tenants there. */
  sampleData: z.string().startsWith('/').optional(),
})
export type ConsoleOptions = z.input<typeof ConsoleOptions>

/** WCAG's contrast ratio of a colour with white. */
export function contrastWithWhite(colour: string): number {
  const [red = 0, green = 0, blue = 0] = [1, 3, 5].map((start) => {
    const value = Number.parseInt(colour.slice(start, start + 2), 16) / 255
    return value <= 0.03928 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4
  })
  return 1.05 / (0.2126 * red + 0.7152 * green + 0.0722 * blue + 0.05)
}
