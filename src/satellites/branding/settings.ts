/**
 * Members of branding and their rules. The values reach places where characters are commands: mail headers, HTML attributes, CSS.
 */
import { z } from 'zod'
import { dangerIn } from './css.ts'

const CSS_BYTES = 64 * 1024
const URL_LENGTH = 2_048
const EMAIL_LENGTH = 254

/** Control characters (with CR and LF), line and paragraph separators, and characters that change the writing direction. */
const CONTROL = /[\p{Cc}\p{Zl}\p{Zp}\u200e\u200f\u202a-\u202e\u2066-\u2069]/u
const CONTROL_IN_CSS = /[^\P{Cc}\t\n\r\f]/u
/** Characters that must be escaped in an address. They would end an HTML attribute that a host forgot to escape. */
const NOT_IN_URL = /[\s"'<>\\^`{|}]/

const Name = z
  .string()
  .refine((name) => name.isWellFormed() && !CONTROL.test(name), 'must not contain control characters')
  .trim()
  .min(1)
  .max(200)
  .meta({ description: 'One line, safe as a mail header' })

const HttpsUrl = z
  .string()
  .max(URL_LENGTH)
  .refine(isHttpsUrl, 'must be an https:// address without a password, with special characters percent-encoded')
  .meta({ description: 'https only', format: 'uri', example: 'https://acme.example/logo.svg' })

const Email = z.email('must be a mail address').max(EMAIL_LENGTH)

const Colour = z
  .string()
  .regex(/^#[0-9a-fA-F]{6}$/, 'must be a colour such as #1a2b3c')
  .meta({ description: '#rrggbb', example: '#1a2b3c' })

const Css = z
  .string()
  .check((context) => {
    const message = errorIn(context.value)
    if (message) context.issues.push({ code: 'custom', message, input: context.value })
  })
  .meta({
    description:
      'Style sheet for a `<style>` element, at most 64 KiB. Rejected: `<` before a letter, `/`, `!` or `?` (in a string, ' +
      'write `\\3c`), `@import`, `image-set()`, and any `url()` except paths of the same host, `data:` and `#`.',
  })

const orNull = <Member extends z.ZodType>(member: Member) => member.nullable().prefault(null)

/** Complete state: an absent member is null. */
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

/** Response. The rules are not checked again, so a stricter rule does not hide stored branding. */
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
    customCss: shown.meta({ description: 'Safe inside a `<style>` element; loads from the own host only' }),
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
  if (Buffer.byteLength(css) > CSS_BYTES) return 'must have at most 64 KiB'
  if (!css.isWellFormed() || CONTROL_IN_CSS.test(css)) return 'must not contain control characters'
  return dangerIn(css)
}
