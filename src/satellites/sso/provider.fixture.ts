/**
 * An identity provider of a tenant: the real oidc-provider on loopback, with a scripted user. A test can change its responses.
 *
 *   const provider = await startProvider()
 *   const callback = await provider.logIn(url)          as a browser: the final URL, below `redirectUri`
 *   provider.lies('/token', (body) => ({ … }))          replaces a response
 */
import { createPrivateKey, generateKeyPairSync, randomUUID, sign } from 'node:crypto'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { type Adapter, type AdapterPayload, type JWK, Provider } from 'oidc-provider'

export const CLIENT = { clientId: 'tenantry', clientSecret: 'a secret: of +%& the client' } as const
export const PUBLIC_CLIENT = 'tenantry-public'
export const POSTING_CLIENT = { clientId: 'tenantry-post', clientSecret: 'another-secret-of-a-client' } as const

const MAX_HOPS = 12

type Json = Record<string, any>
/** Replacement of a response; undefined keeps it. */
type Lie = (response: Json) => Json | undefined
/** Responds in the provider's place, or never. */
type Takeover = (request: IncomingMessage, response: ServerResponse) => void

export interface TestProvider {
  readonly issuer: string
  /** Registered by its clients; separate for each provider. */
  readonly redirectUri: string
  /** Requested paths, in order. */
  readonly requests: readonly string[]
  /** Claims of the user. */
  readonly person: { sub: string; email?: unknown; email_verified?: unknown; name?: unknown }
  /** @param path such as `/token` @param lie undefined: the true response again */
  lies(path: string, lie: Lie | undefined): void
  takesOver(path: string, takeover: Takeover | undefined): void
  /** Changes the claims of each ID token and signs it again; by default with the provider's own key. */
  bends(change: ((claims: Json) => Json) | undefined, header?: Json, key?: JWK): void
  /** Replaces the signing key. Returns the former one. */
  rollKeys(): JWK
  /** @param url of the authorization request. Returns the final redirect. */
  logIn(url: string): Promise<string>
  close(): Promise<void>
}

export function newKey(): JWK {
  const { privateKey } = generateKeyPairSync('rsa', { modulusLength: 2_048 })
  return { ...privateKey.export({ format: 'jwk' }), kid: randomUUID(), alg: 'RS256', use: 'sig' } as JWK
}

let started = 0
let sharedKey: JWK | undefined

/**
 * @param options of oidc-provider in addition to the required ones
 * @param redirectUri registered by its clients
 * @param firstKey signing key; by default one for all providers, because a new one takes long to generate
 */
export async function startProvider(
  options: Json = {},
  redirectUri = `https://app.example/sso/callback/${++started}`,
  firstKey?: JWK,
): Promise<TestProvider> {
  const requests: string[] = []
  const lies = new Map<string, Lie>()
  const takeovers = new Map<string, Takeover>()
  const person: TestProvider['person'] = {
    sub: 'alice',
    email: 'alice@acme.example',
    email_verified: true,
    name: 'Alice Doe',
  }
  sharedKey ??= newKey()
  let key = firstKey ?? sharedKey
  let provider: Provider
  const server = createServer((request, response) => {
    const path = (request.url ?? '').split('?')[0] ?? ''
    requests.push(path)
    const takeover = takeovers.get(path)
    if (takeover) return takeover(request, response)
    const uid = /^\/interaction\/(.+)$/.exec(path)?.[1]
    if (uid) return void provider.interactionFinished(request, response, { login: { accountId: person.sub } })
    const lie = lies.get(path)
    if (lie) rewriteJson(lie, response)
    provider.callback()(request, response)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const issuer = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const open = () => {
    provider = providerAt(issuer, key, person, { redirectUris: [redirectUri], options })
  }
  open()
  return {
    issuer,
    redirectUri,
    requests,
    person,
    lies: (path, lie) => void (lie ? lies.set(path, lie) : lies.delete(path)),
    takesOver: (path, takeover) => void (takeover ? takeovers.set(path, takeover) : takeovers.delete(path)),
    bends(change, header, other) {
      if (!change) return void lies.delete('/token')
      lies.set('/token', (response) =>
        response.id_token
          ? { ...response, id_token: bent(response.id_token, change, header, other ?? key) }
          : undefined,
      )
    },
    rollKeys() {
      const before = key
      key = newKey()
      open()
      return before
    },
    logIn: (url) => loggedIn(url, issuer),
    async close() {
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}

function providerAt(
  issuer: string,
  key: JWK,
  person: TestProvider['person'],
  { redirectUris, options }: { redirectUris: string[]; options: Json },
): Provider {
  const grant_types = ['authorization_code']
  const client = { redirect_uris: redirectUris, response_types: ['code' as const], grant_types }
  return new Provider(issuer, {
    clients: [
      { ...client, client_id: CLIENT.clientId, client_secret: CLIENT.clientSecret },
      { ...client, client_id: PUBLIC_CLIENT, token_endpoint_auth_method: 'none' },
      {
        ...client,
        client_id: POSTING_CLIENT.clientId,
        client_secret: POSTING_CLIENT.clientSecret,
        token_endpoint_auth_method: 'client_secret_post',
      },
    ],
    adapter: Kept,
    jwks: { keys: [key] },
    cookies: { keys: ['a-key-of-the-cookies'] },
    pkce: { required: () => true },
    claims: { openid: ['sub'], email: ['email', 'email_verified'], profile: ['name'] },
    features: { devInteractions: { enabled: false } },
    interactions: { url: (_, { uid }) => `/interaction/${uid}` },
    ttl: { AccessToken: 600, AuthorizationCode: 60, Grant: 600, IdToken: 600, Interaction: 600, Session: 600 },
    findAccount: (_, accountId) => ({ accountId, claims: () => ({ ...person, sub: accountId }) }),
    async loadExistingGrant({ oidc }) {
      const { client, session } = oidc
      const grant = new oidc.provider.Grant({ clientId: client?.clientId ?? '', accountId: session?.accountId ?? '' })
      grant.addOIDCScope('openid email profile')
      await grant.save()
      return grant
    },
    ...options,
  })
}

const kept = new Map<string, AdapterPayload>()

/** Storage of a provider during the test; shared, because ids are unique. */
class Kept implements Adapter {
  readonly #model: string

  constructor(model: string) {
    this.#model = model
  }

  async upsert(id: string, payload: AdapterPayload): Promise<void> {
    kept.set(`${this.#model} ${id}`, payload)
  }

  async find(id: string): Promise<AdapterPayload | undefined> {
    return kept.get(`${this.#model} ${id}`)
  }

  async findByUid(uid: string): Promise<AdapterPayload | undefined> {
    return [...kept.values()].find((payload) => payload.uid === uid && payload.kind === this.#model)
  }

  async findByUserCode(): Promise<undefined> {}

  async consume(id: string): Promise<void> {
    const payload = kept.get(`${this.#model} ${id}`)
    if (payload) payload.consumed = Math.floor(Date.now() / 1_000)
  }

  async destroy(id: string): Promise<void> {
    kept.delete(`${this.#model} ${id}`)
  }

  async revokeByGrantId(grantId: string): Promise<void> {
    for (const [key, payload] of kept) if (payload.grantId === grantId) kept.delete(key)
  }
}

/** Koa ends a JSON response in one piece. */
function rewriteJson(lie: Lie, response: ServerResponse): void {
  const end = response.end.bind(response) as (chunk?: unknown) => ServerResponse
  response.end = ((chunk?: unknown) => {
    const changed = chunk === undefined ? undefined : lie(JSON.parse(String(chunk)))
    if (changed === undefined) return end(chunk)
    const text = JSON.stringify(changed)
    response.setHeader('content-length', Buffer.byteLength(text))
    return end(text)
  }) as typeof response.end
}

function bent(token: string, change: (claims: Json) => Json, header: Json | undefined, key: JWK): string {
  const [, payload = ''] = token.split('.')
  const claims = change(JSON.parse(Buffer.from(payload, 'base64url').toString()))
  const signed = [header ?? { alg: 'RS256', kid: key.kid }, claims]
    .map((part) => Buffer.from(JSON.stringify(part)).toString('base64url'))
    .join('.')
  const signature = sign('sha256', Buffer.from(signed), createPrivateKey({ key: { ...key }, format: 'jwk' }))
  return `${signed}.${signature.toString('base64url')}`
}

/** As a browser: follows redirects and keeps the provider's cookies until it leaves the provider. */
async function loggedIn(url: string, issuer: string): Promise<string> {
  const cookies = new Map<string, string>()
  let next = url
  for (let hop = 0; hop < MAX_HOPS; hop++) {
    const cookie = [...cookies].map(([name, value]) => `${name}=${value}`).join('; ')
    const response = await fetch(next, { redirect: 'manual', headers: { cookie, accept: 'text/html' } })
    for (const line of response.headers.getSetCookie()) {
      const [, name = '', value = ''] = /^([^=]+)=([^;]*)/.exec(line) ?? []
      cookies.set(name, value)
    }
    const location = response.headers.get('location')
    if (!location) throw new Error(`${response.status} at ${next}: ${await response.text()}`)
    next = new URL(location, next).href
    if (!next.startsWith(issuer)) return next
  }
  throw new Error('the provider redirects in a loop')
}
