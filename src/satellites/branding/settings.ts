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

const text = z.string().refine((value) => value.isWellFormed() && !CONTROL.test(value), 'holds control characters')

const Name = text.pipe(z.string().trim().min(1).max(200)).meta({ description: 'At most 200 characters on one line' })

const HttpsUrl = z
  .string()
  .max(URL_LENGTH)
  .refine(isHttpsUrl, 'not an https:// address without credentials')
  .meta({ description: 'https only', format: 'uri', example: 'https://acme.example/logo.svg' })

const Email = z.email().max(EMAIL_LENGTH)

const Colour = z
  .string()
  .regex(/^#[0-9a-f]{6}$/i, 'not a colour like #1a2b3c')
  .meta({ description: '#rrggbb', example: '#1a2b3c' })

const Css = z
  .string()
  .superRefine((css, context) => {
    const message = faultIn(css)
    if (message) context.addIssue({ code: 'custom', message })
  })
  .meta({
    description:
      'A style sheet for a `<style>` element, at most 64 KiB. Refused: `<` before a letter, `/`, `!` or `?` (write `\\3c`), ' +
      '`@import`, `image-set()`, and any `url()` but paths of the same host, `data:` and `#`.',
  })

const members = {
  displayName: Name.nullable(),
  logoUrl: HttpsUrl.nullable(),
  faviconUrl: HttpsUrl.nullable(),
  primaryColor: Colour.nullable(),
  accentColor: Colour.nullable(),
  supportEmail: Email.nullable(),
  supportUrl: HttpsUrl.nullable(),
  fromName: Name.nullable(),
  fromEmail: Email.nullable(),
  customCss: Css.nullable(),
}

export type BrandingMember = keyof typeof members

export const MEMBERS = Object.keys(members) as BrandingMember[]

/** Full state: a member that is left out is null. */
export const BrandingRequest = z.strictObject({
  displayName: members.displayName.default(null),
  logoUrl: members.logoUrl.default(null),
  faviconUrl: members.faviconUrl.default(null),
  primaryColor: members.primaryColor.default(null),
  accentColor: members.accentColor.default(null),
  supportEmail: members.supportEmail.default(null),
  supportUrl: members.supportUrl.default(null),
  fromName: members.fromName.default(null),
  fromEmail: members.fromEmail.default(null),
  customCss: members.customCss.default(null),
})
