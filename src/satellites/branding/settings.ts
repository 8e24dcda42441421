/**
 * What a tenant's brand consists of, and what is let in. Everything here ends up in places that read characters as commands:
 * names in mail headers, addresses in HTML attributes, colours and style sheets in CSS.
 */
import { z } from 'zod'
import { dangerIn } from './css.ts'

const CSS_BYTES = 64 * 1024
const URL_LENGTH = 2_048
const EMAIL_LENGTH = 254

/** Control characters (CR and LF among them), line and paragraph separators, and what turns the direction of writing. */
const CONTROL = /[\p{Cc}\p{Zl}\p{Zp}\u200e\u200f\u202a-\u202e\u2066-\u2069]/u
const CONTROL_IN_CSS = /[^\P{Cc}\t\n\r\f]/u
/** What stands in no address unescaped, and would end an HTML attribute that a host forgot to escape. */
const NOT_IN_URL = /[\s"'<>\\^`{|}]/

const Name = z
  .string()
  .refine((name) => name.isWellFormed() && !CONTROL.test(name), 'holds control characters')
  .trim()
  .min(1)
  .max(200)
  .meta({ description: 'One line; it may become a mail header' })

const HttpsUrl = z
  .string()
  .max(URL_LENGTH)
  .refine(isHttpsUrl, 'not an https:// address, without a password, with special characters percent-encoded')
  .meta({ description: 'https only', format: 'uri', example: 'https://acme.example/logo.svg' })

const Email = z.email('not a mail address').max(EMAIL_LENGTH)

const Colour = z
  .string()
  .regex(/^#[0-9a-fA-F]{6}$/, 'not a colour like #1a2b3c')
  .meta({ description: '#rrggbb', example: '#1a2b3c' })

const Css = z
  .string()
  .check((context) => {
    const message = errorIn(context.value)
    if (message) context.issues.push({ code: 'custom', message, input: context.value })
  })
  .meta({
    description:
      'A style sheet for a `<style>` element, at most 64 KiB. Refused: `<` before a letter, `/`, `!` or `?` (in a string, ' +
      'write `\\3c`), `@import`, `image-set()`, and any `url()` but paths of the same host, `data:` and `#`.',
  })

const orNull = <Member extends z.ZodType>(member: Member) => member.nullable().prefault(null)

/** Full state: a member that is left out is null. */
export const BrandingRequest = z.strictObject({
  displayName: orNull(Name),
  logoUrl: orNull(HttpsUrl),
  faviconUrl: orNull(HttpsUrl),
  primaryColor: orNull(Colour),
  accentColor: orNull(Colour),
  supportEmail: orNull(Email),
  supportUrl: orNull(HttpsUrl),
  fromName: orNull(Name),
  fromEmail: orNull(Email),
  customCss: orNull(Css),
})

const shown = z.string().nullable()

/** What is answered: not checked against the rules again, so that a rule that becomes stricter hides no brand. */
export const BrandingSettings = z
  .object({
    displayName: shown,
    logoUrl: shown,
    faviconUrl: shown,
    primaryColor: shown,
    accentColor: shown,
    supportEmail: shown,
    supportUrl: shown,
    fromName: shown.meta({ description: 'Name of the sender of mail' }),
    fromEmail: shown.meta({ description: 'Address of the sender of mail' }),
    customCss: shown.meta({ description: 'Safe inside a `<style>` element; loads from nowhere but the own host' }),
  })
  .meta({ id: 'Branding' })
export type BrandingSettings = z.output<typeof BrandingSettings>

export const MEMBERS = Object.keys(BrandingSettings.shape) as (keyof BrandingSettings)[]

export const NO_BRANDING = Object.fromEntries(MEMBERS.map((member) => [member, null])) as BrandingSettings

function isHttpsUrl(address: string): boolean {
  if (!/^https:\/\//i.test(address) || !address.isWellFormed() || NOT_IN_URL.test(address) || CONTROL.test(address))
    return false
  const url = URL.parse(address)
  return url !== null && url.username === '' && url.password === ''
}

function errorIn(css: string): string | undefined {
  if (Buffer.byteLength(css) > CSS_BYTES) return 'at most 64 KiB'
  if (!css.isWellFormed() || CONTROL_IN_CSS.test(css)) return 'holds control characters'
  return dangerIn(css)
}
