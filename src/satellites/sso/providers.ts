/**
 * Caches public data of identity providers by issuer, shared by their tenants: discovery documents and signing keys.
 *
 *   document   read again after 10 minutes; during an outage of the provider, the former one is used for an hour
 *   keys       read again after 5 minutes, and immediately for an unknown key id (rotation), but not twice in 30 s
 *
 * Concurrent callers share one request for a document. The cache is an LRU with a limit.
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
import { documentOf, type ProviderDocument, type ProviderReader } from './provider-document.ts'
import { IdentityProviderError } from './provider-failure.ts'
import { providerFetch } from './provider-fetch.ts'
import { countSigningKeys } from './provider-keys.ts'

const MAX_KNOWN = 500
const DOCUMENT_FRESH_MS = 10 * 60_000
const DOCUMENT_USABLE_MS = 60 * 60_000
const RETRY_MS = 30_000
const KEYS_FRESH_MS = 5 * 60_000
const KEYS_COOL_DOWN_MS = 30_000
/** openid-client reads keys again for an unknown key id only if they are at least this old. */
const AGE_OF_REREADING_SECONDS = 60
/** Client id of a discovery, which needs no client. */
const DISCOVERY_CLIENT_ID = 'discovery'
const FETCH_OPTIONS = { method: 'GET', redirect: 'manual', body: undefined } as const

type Keys = Pick<NonNullable<ReturnType<typeof getJwksCache>>, 'jwks'>

interface Known {
  readonly document: ProviderDocument
  readonly at: number
  /** Not read again before this time. */
  readonly retryAt: number
  readonly keys?: Keys & { readonly at: number }
}

/** A client at a provider. */
export interface Client {
  readonly issuer: string
  readonly clientId: string
  readonly clientSecret: string | undefined
}

export class Providers implements ProviderReader {
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

  /** @throws errors of provider-failure.ts */
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

  /** Reads the document from the provider, without the cache. */
  read(issuer: string): Promise<ProviderDocument> {
    const reading = this.#reading.get(issuer) ?? this.#read(issuer).finally(() => this.#reading.delete(issuer))
    this.#reading.set(issuer, reading)
    return reading
  }

  async probe(issuer: string, timeoutMs: number): Promise<void> {
    const { egress } = this.#kernel
    documentOf(await this.metadata(issuer, providerFetch(egress, Math.min(timeoutMs, this.#timeoutMs))), issuer, egress)
  }

  async metadata(issuer: string, fetch = this.#fetch): Promise<Readonly<Record<string, unknown>>> {
    try {
      const options = { [customFetch]: fetch, execute: [allowInsecureRequests] } // the egress guard decides on insecure requests
      const found = await discovery(new URL(issuer), DISCOVERY_CLIENT_ID, undefined, None(), options)
      return { ...found.serverMetadata() }
    } catch (error) {
      throw unwrappedError(error)
    }
  }

  async countKeys({ jwks_uri }: ProviderDocument): Promise<number> {
    const response = await this.#fetch(jwks_uri, { ...FETCH_OPTIONS, headers: { accept: 'application/json' } })
    const count = response.status === 200 ? countSigningKeys(await response.text()) : undefined
    if (count === undefined)
      throw new IdentityProviderError('no key set at the address in the discovery document', false)
    return count
  }

  /**
   * Runs an exchange of a client with its provider, and caches the keys that it read.
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

  /** With the clock of the tenancy. */
  configuration({ clientId, clientSecret }: Client, document: ProviderDocument): Configuration {
    const skewSeconds = Math.round((this.#now() - Date.now()) / 1_000)
    const authentication = authenticationOf(clientSecret, document.token_endpoint_auth_methods_supported)
    const configuration = new Configuration(document, clientId, { [clockSkew]: skewSeconds }, authentication)
    configuration[customFetch] = this.#fetch
    configuration.timeout = undefined // the egress guard decides
    allowInsecureRequests(configuration)
    enableNonRepudiationChecks(configuration) // signatures are checked even though the token comes directly from the provider
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

/** Undefined if the provider supports neither of the two methods. */
export function authenticationMethod(supported: readonly string[] = ['client_secret_basic']) {
  return (['client_secret_basic', 'client_secret_post'] as const).find((method) => supported.includes(method))
}

function authenticationOf(secret: string | undefined, supported: readonly string[] | undefined): ClientAuth {
  if (secret === undefined) return None()
  return authenticationMethod(supported) === 'client_secret_post' ? ClientSecretPost(secret) : ClientSecretBasic(secret)
}

/** Adapts the age of keys to openid-client's rule: young while they must not be read again, otherwise old enough. */
function updatedAt(ageMs: number): number {
  const seconds = Math.max(AGE_OF_REREADING_SECONDS, Math.floor(ageMs / 1_000))
  return Math.floor(Date.now() / 1_000) - (ageMs < KEYS_COOL_DOWN_MS ? 0 : seconds)
}

/** The error that openid-client has wrapped. */
function unwrappedError(error: unknown): unknown {
  const isWrapped = error instanceof Error && error.cause instanceof IdentityProviderError
  return isWrapped ? error.cause : error
}
