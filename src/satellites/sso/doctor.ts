/**
 * What the doctor says of single sign-on. Issuers are asked a few at a time, each once for all of its tenants, and whatever is
 * remembered of them. If there are too many, each hour asks other ones.
 */

import { canDecrypt } from '../../kernel/database/re-encrypt.ts'
import type { Diagnosis, Examination, Finding } from '../../kernel/doctor/doctor.ts'
import { IdentityProviderError, wordsOf } from './provider-failure.ts'
import { isShared } from './shared-issuers.ts'
import type { Sso } from './sso.ts'
import type { SsoRow } from './tables.ts'

const AT_ONCE = 10
/** More are asked only for a proof. */
const MAX_ISSUERS = 100
/** When all of them are silent, they take 40 s. */
const PROBE_TIMEOUT_MS = 4_000
const TIMEOUT_MS = 60_000
const HOUR_MS = 3_600_000

export const diagnoses: readonly Diagnosis<Sso>[] = [
  {
    name: 'sso',
    summary: 'Identity providers that cannot be used',
    timeoutMs: TIMEOUT_MS,
    examine: examineProviders,
  },
  { name: 'sso.people', summary: 'Issuers at which everybody has an account', examine: examinePeople },
  { name: 'sso.secrets', summary: 'Secrets of clients, and their keys', examine: examineSecrets },
]

async function* examineProviders(
  { records, providers, clock }: Sso,
  { prove, signal, log }: Examination,
): AsyncIterable<Finding> {
  const rows = (await records.all()).filter(({ enabled }) => enabled)
  const tenantsOf = Map.groupBy(rows, ({ issuer }) => issuer ?? '')
  const issuers = [...tenantsOf.keys()]
  const selected = prove ? issuers : batchForHour(issuers, MAX_ISSUERS, Math.floor(clock.now().getTime() / HOUR_MS))
  const probe = async (issuer: string): Promise<Finding[]> => {
    try {
      await providers.probe(issuer, PROBE_TIMEOUT_MS)
      return []
    } catch (error) {
      log.warn({ reason: wordsOf(error), issuer }, 'an identity provider could not be examined')
      return [unusable(issuer, tenantsOf.get(issuer) ?? [], error)]
    }
  }
  for (let first = 0; first < selected.length && !signal.aborted; first += AT_ONCE) {
    yield* (await Promise.all(selected.slice(first, first + AT_ONCE).map(probe))).flat()
  }
  if (selected.length < issuers.length) {
    yield {
      severity: 'info',
      code: 'sso.not-asked',
      message: `${issuers.length - selected.length} identity providers of ${issuers.length} were not asked`,
      remedy: 'Each hour others are asked; tenantry doctor --prove asks all of them.',
    }
  }
}

/** So many of them; each hour those that follow. */
export function batchForHour<Item>(items: readonly Item[], count: number, hour: number): Item[] {
  const first = items.length > count ? (hour * count) % items.length : 0
  return [...items.slice(first), ...items.slice(0, first)].slice(0, count)
}

async function* examinePeople({ records }: Sso): AsyncIterable<Finding> {
  for (const { tenantId, issuer, enabled, allowedDomains } of await records.all()) {
    if (!enabled || allowedDomains.length > 0 || issuer === null || !isShared(issuer)) continue
    yield {
      severity: 'warn',
      code: 'sso.everybody',
      message: `whoever has an account at ${issuer} can log in to "${tenantId}"`,
      remedy: 'Name the domains of its people in allowedDomains: PUT /tenants/{id}/sso.',
      tenantId,
    }
  }
}

function unusable(issuer: string, rows: readonly SsoRow[], error: unknown): Finding {
  const [first] = rows
  const others = rows.length > 1 ? ` and ${rows.length - 1} more` : ''
  const isPassing = error instanceof IdentityProviderError && error.isPassing
  return {
    severity: 'warn',
    code: isPassing ? 'sso.provider-unreachable' : 'sso.provider-unusable',
    message:
      `the identity provider ${issuer} of "${first?.tenantId}"${others} ` +
      `${isPassing ? 'does not answer' : 'has no discovery document that logins can go by'}: nobody can log in there`,
    remedy:
      'POST /tenants/{id}/sso/test says what is missing. While single sign-on is enforced and the provider away, ' +
      'POST /tenants/{id}/sso/disable lets people in by another way.',
    ...(first ? { tenantId: first.tenantId } : {}),
  }
}

async function* examineSecrets({ records }: Sso): AsyncIterable<Finding> {
  for (const row of await records.all()) {
    if (row.clientSecret === null) continue
    const { tenantId } = row
    if (!canDecrypt(() => records.decryptSecret(row))) {
      yield {
        severity: row.enabled ? 'error' : 'warn',
        code: 'sso.lost-key',
        message: `the client secret of "${tenantId}" is sealed under an application key that is not configured here`,
        remedy: 'Add the key to TENANTRY_OLD_APP_KEYS; if it is lost, set the secret again.',
        tenantId,
      }
    } else if (!records.isCurrent(row)) {
      yield {
        severity: 'info',
        code: 'sso.old-key',
        message: `the client secret of "${tenantId}" is sealed under a former application key`,
        remedy:
          'tenantry tenant:secrets:reencrypt seals it anew; until then keep that key among TENANTRY_OLD_APP_KEYS.',
        tenantId,
      }
    }
  }
}
