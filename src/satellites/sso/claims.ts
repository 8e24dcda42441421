/** Who has logged in, out of the ID token and what the provider's userinfo adds. */
type Claims = Readonly<Record<string, unknown>>

export interface SsoClaims {
  /** With `sub` it names a person for good; a mail address does not. */
  readonly issuer: string
  readonly sub: string
  readonly email: string | null
  /** Whether the provider says that the address is the person's. */
  readonly emailVerified: boolean
  readonly name: string | null
  /** Everything the provider says, as it says it: groups, roles. Of mail addresses, the one above alone. */
  readonly all: Claims
}

/** Whether the ID token leaves out what was asked for. */
export function isShort(idToken: Claims, scopes: readonly string[]): boolean {
  const isMailShort = scopes.includes('email') && (idToken.email === undefined || idToken.email_verified === undefined)
  return isMailShort || (scopes.includes('profile') && idToken.name === undefined)
}

/** The address and whether it is verified are of one source: two say nothing of each other. */
export function claimsOf(idToken: Claims, userinfo: Claims | undefined): SsoClaims {
  const isWhole = idToken.email !== undefined && idToken.email_verified !== undefined
  const mail = isWhole || userinfo?.email === undefined ? idToken : userinfo
  const email = text(mail.email)
  return {
    issuer: String(idToken.iss),
    sub: String(idToken.sub),
    email,
    emailVerified: email !== null && (mail.email_verified === true || mail.email_verified === 'true'),
    name: text(idToken.name) ?? text(userinfo?.name),
    all: { ...withoutMail({ ...userinfo, ...idToken }), ...mailOf(mail) },
  }
}

const withoutMail = ({ email: _, email_verified: __, ...rest }: Claims): Claims => rest
const mailOf = (claims: Claims): Claims =>
  Object.fromEntries(Object.entries(claims).filter(([name]) => name === 'email' || name === 'email_verified'))

const text = (value: unknown): string | null => (typeof value === 'string' && value !== '' ? value : null)
