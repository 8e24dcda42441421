/**
 * Diagnoses of single sign-on. Issuers are probed a few at a time, each once for all of its tenants and without the cache. With many
 * issuers, each hour probes another batch.
 */

import { canDecrypt } from '../../kernel/database/re-encrypt.ts'
import type { Diagnosis, Examination, Finding } from '../../kernel/doctor/doctor.ts'
import { errorMessageOf, IdentityProviderError } from './provider-failure.ts'
import { isShared } from './shared-issuers.ts'
import type { Sso } from './sso.ts'
import type { SsoRow } from './tables.ts'

const AT_ONCE = 10
/** Limit of a run without `--prove`. */
const MAX_ISSUERS = 100
/** 40 s in total if no issuer responds. */
const PROBE_TIMEOUT_MS = 4_000
const TIMEOUT_MS = 60_000
const HOUR_MS = 3_600_000

export const diagnoses: readonly Diagnosis<Sso>[] = [
  {
    name: 'sso',
    summary: 'Availability of identity providers',
    timeoutMs: TIMEOUT_MS,
    examine: examineProviders,
  },
  { name: 'sso.people', summary: 'Issuers with open registration', examine: examinePeople },
  { name: 'sso.secrets', summary: 'Encryption of client secrets', examine: examineSecrets },
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
      log.warn({ reason: errorMessageOf(error), issuer }, 'an identity provider could not be examined')
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
      message: `${issuers.length - selected.length} of ${issuers.length} identity providers were not probed`,
      remedy: 'Each hour probes another batch; tenantry doctor --prove probes all.',
    }
  }
}

/** The batch of `count` items for an hour, in rotation. */
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
      message: `every account of ${issuer} can log in to "${tenantId}"`,
      remedy: 'Set the domains of its users in allowedDomains: PUT /tenants/{id}/sso.',
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
      `identity provider ${issuer} of "${first?.tenantId}"${others} ` +
      `${isPassing ? 'does not respond' : 'has no usable discovery document'}: logins fail`,
    remedy:
      'POST /tenants/{id}/sso/test shows the reason. While single sign-on is enforced and the provider unavailable, ' +
      'POST /tenants/{id}/sso/disable allows other logins.',
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
        message: `the client secret of "${tenantId}" is encrypted with an application key that is not configured`,
        remedy: 'Add the key to TENANTRY_OLD_APP_KEYS; if it is lost, set the secret again.',
        tenantId,
      }
    } else if (!records.isCurrent(row)) {
      yield {
        severity: 'info',
        code: 'sso.old-key',
        message: `the client secret of "${tenantId}" is encrypted with a former application key`,
        remedy: 'Run tenantry tenant:secrets:reencrypt; until then, keep that key in TENANTRY_OLD_APP_KEYS.',
        tenantId,
      }
    }
  }
}
