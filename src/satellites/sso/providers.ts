/**
 * What this process knows of identity providers, by issuer: discovery documents and signing keys. Both are public, so tenants of one
 * issuer share them.
 *
 *   document   read again after 10 minutes; while the provider is away the old one serves for an hour
 *   keys       read again after 5 minutes, and at once for a key that is not among them (a roll-over), but not twice in 30 s
 *
 * Of callers who need the same document there is one request. What is known is bounded; the longest unused goes first.
 */
import { LRUCache } from 'lru-cache'
import {
  allowInsecureRequests,
  type ClientAuth,
  ClientSecretBasic,
  ClientSecretPost,
  Configuration,
  clockSkew,
  customFetch,
  discovery,
  enableNonRepudiationChecks,
  getJwksCache,
  None,
  setJwksCache,
} from 'openid-client'
import type { Kernel } from '../../kernel/kernel.ts'
import { documentOf, type ProviderDocument } from './provider-document.ts'
import { IdentityProviderError } from './provider-failure.ts'
import { providerFetch } from './provider-fetch.ts'
import { countSigningKeys } from './provider-keys.ts'

const MAX_KNOWN = 500
const DOCUMENT_FRESH_MS = 10 * 60_000
const DOCUMENT_USABLE_MS = 60 * 60_000
const RETRY_MS = 30_000
const KEYS_FRESH_MS = 5 * 60_000
const KEYS_COOL_DOWN_MS = 30_000
/** openid-client reads keys again for one that it does not know when they are this old, and not before. */
const AGE_OF_REREADING_SECONDS = 60
/** Stands for a client where there is none yet: a discovery is no client's. */
const ANYBODY = 'discovery'
const FETCH_OPTIONS = { method: 'GET', redirect: 'manual', body: undefined } as const

type Keys = Pick<NonNullable<ReturnType<typeof getJwksCache>>, 'jwks'>

interface Known {
  readonly document: ProviderDocument
  readonly at: number
  /** Not read again before this. */
  readonly retryAt: number
  readonly keys?: Keys & { readonly at: number }
}

/** A client at a provider. */
export interface Client {
  readonly issuer: string
  readonly clientId: string
  readonly clientSecret: string | undefined
}

export class Providers {
  readonly #kernel: Kernel
  readonly #timeoutMs: number
  readonly #fetch: ReturnType<typeof providerFetch>
  readonly #known = new LRUCache<string, Known>({ max: MAX_KNOWN })
  readonly #reading = new Map<string, Promise<ProviderDocument>>()

  constructor(kernel: Kernel, timeoutMs: number) {
    this.#kernel = kernel
    this.#timeoutMs = timeoutMs
    this.#fetch = providerFetch(kernel.egress, timeoutMs)
  }

  /** Throws what stands in the way: see provider-failure.ts. */
  async document(issuer: string): Promise<ProviderDocument> {
    const known = this.#known.get(issuer)
    const now = this.#now()
    if (known && (now - known.at < DOCUMENT_FRESH_MS || now < known.retryAt)) return known.document
    try {
      return await this.read(issuer)
    } catch (error) {
      const isPassing = error instanceof IdentityProviderError && error.isPassing
      if (!known || !isPassing || now - known.at >= DOCUMENT_USABLE_MS) throw error
      this.#known.set(issuer, { ...known, retryAt: now + RETRY_MS })
      return known.document
    }
  }

  /** From the provider, whatever is known. */
  read(issuer: string): Promise<ProviderDocument> {
    const reading = this.#reading.get(issuer) ?? this.#read(issuer).finally(() => this.#reading.delete(issuer))
    this.#reading.set(issuer, reading)
    return reading
  }

  /** Whether it can be used now; nothing of it is kept, and nobody waits for longer than that. Throws as `document`. */
  async probe(issuer: string, timeoutMs: number): Promise<void> {
    const { egress } = this.#kernel
    documentOf(await this.metadata(issuer, providerFetch(egress, Math.min(timeoutMs, this.#timeoutMs))), issuer, egress)
  }

  /** As the provider has them. Tells apart what `read` throws together; nothing of it is kept. */
  async metadata(issuer: string, fetch = this.#fetch): Promise<Readonly<Record<string, unknown>>> {
    try {
      const options = { [customFetch]: fetch, execute: [allowInsecureRequests] } // what is secure says the egress guard
      const found = await discovery(new URL(issuer), ANYBODY, undefined, None(), options)
      return { ...found.serverMetadata() }
    } catch (error) {
      throw unwrappedError(error)
    }
  }

  /** How many keys there are that an ID token could be signed with; from the provider, whatever is known. */
  async countKeys({ jwks_uri }: ProviderDocument): Promise<number> {
    const response = await this.#fetch(jwks_uri, { ...FETCH_OPTIONS, headers: { accept: 'application/json' } })
    const count = response.status === 200 ? countSigningKeys(await response.text()) : undefined
    if (count === undefined)
      throw new IdentityProviderError('there is no set of keys where the discovery document says', false)
    return count
  }

  /**
   * Carries out an exchange of a client with its provider, and keeps what was learned of its keys.
   *
   * @param document of the client's issuer
   */
  async with<T>(
    client: Client,
    document: ProviderDocument,
    exchange: (configuration: Configuration) => Promise<T>,
  ): Promise<T> {
    const configuration = this.configuration(client, document)
    const keys = this.#known.get(client.issuer)?.keys
    const now = this.#now()
    const given = keys && now - keys.at < KEYS_FRESH_MS ? updatedAt(now - keys.at) : undefined
    if (keys && given !== undefined) setJwksCache(configuration, { jwks: keys.jwks, uat: given })
    try {
      return await exchange(configuration)
    } finally {
      const learned = getJwksCache(configuration)
      const known = this.#known.get(client.issuer)
      if (known && learned && learned.uat !== given) {
        this.#known.set(client.issuer, { ...known, keys: { jwks: learned.jwks, at: this.#now() } })
      }
    }
  }

  /** With our clock in the place of the machine's. */
  configuration({ clientId, clientSecret }: Client, document: ProviderDocument): Configuration {
    const skewSeconds = Math.round((this.#now() - Date.now()) / 1_000)
    const authentication = authenticationOf(clientSecret, document.token_endpoint_auth_methods_supported)
    const configuration = new Configuration(document, clientId, { [clockSkew]: skewSeconds }, authentication)
    configuration[customFetch] = this.#fetch
    configuration.timeout = undefined // every exchange has its own
    allowInsecureRequests(configuration)
    enableNonRepudiationChecks(configuration) // signatures are checked, though the token comes straight from the provider
    return configuration
  }

  async #read(issuer: string): Promise<ProviderDocument> {
    const document = documentOf(await this.metadata(issuer), issuer, this.#kernel.egress)
    const keys = this.#known.get(issuer)?.keys
    const now = this.#now()
    this.#known.set(issuer, { document, at: now, retryAt: now, ...(keys ? { keys } : {}) })
    return document
  }

  #now(): number {
    return this.#kernel.clock.now().getTime()
  }
}

/** Undefined when the provider takes none of the two that we know. */
export function authenticationMethod(supported: readonly string[] = ['client_secret_basic']) {
  return (['client_secret_basic', 'client_secret_post'] as const).find((method) => supported.includes(method))
}

function authenticationOf(secret: string | undefined, supported: readonly string[] | undefined): ClientAuth {
  if (secret === undefined) return None()
  return authenticationMethod(supported) === 'client_secret_post' ? ClientSecretPost(secret) : ClientSecretBasic(secret)
}

/** By the clock of the machine, which openid-client reckons with: young while they may not be read again, else old enough. */
function updatedAt(ageMs: number): number {
  const seconds = Math.max(AGE_OF_REREADING_SECONDS, Math.floor(ageMs / 1_000))
  return Math.floor(Date.now() / 1_000) - (ageMs < KEYS_COOL_DOWN_MS ? 0 : seconds)
}

/** Our own, which openid-client wraps. */
function unwrappedError(error: unknown): unknown {
  const isWrapped = error instanceof Error && error.cause instanceof IdentityProviderError
  return isWrapped ? error.cause : error
}
