/** Conditions of a filter of deliveries, and the response that `sameResponseAs` refers to. */
import { type SelectQueryBuilder, sql } from 'kysely'
import { floorOfUuidsAt } from '../../../kernel/base/ids.ts'
import type { Database } from '../../../kernel/database/database.ts'
import { DeliveryNotFound } from '../model/errors.ts'
import type { DeliveryFilter } from '../model/queries.ts'
import type { DeliveryRow, WebhookTables } from '../model/tables.ts'
import { UNSETTLED, UNSUCCESSFUL } from '../sql/indexes.ts'

/** Result of the last attempt of a delivery. */
export interface LastResponse {
  readonly status: number | null
  readonly error: string | null
  /** MD5 of the body of the response, in hexadecimal; empty without a body. */
  readonly hash: string
}

/** @throws `E_DELIVERY_NOT_FOUND` @param webhookId only a delivery of this subscription; null: of any */
export async function lastResponseOf(
  database: Database,
  deliveryId: string,
  webhookId: string | null,
): Promise<LastResponse> {
  const { rows } = await database.sql(
    `select last_status as status, last_error as error, coalesce(md5(response_body), '') as hash
     from multitenancy.webhook_deliveries d
     left join multitenancy.webhook_attempts a on a.delivery_id = d.id and a.number = d.attempt_count
     where d.id = $1 and ($2::uuid is null or d.webhook_id = $2)`,
    [deliveryId, webhookId],
  )
  return rows[0] ?? notFound(deliveryId)
}

const notFound = (deliveryId: string): never => {
  throw DeliveryNotFound(`Delivery "${deliveryId}" of sameResponseAs not found.`)
}

type Query = SelectQueryBuilder<WebhookTables, 'webhookDeliveries', DeliveryRow>

/** Adds the conditions of a filter, and those of the partial indexes that contain all matching deliveries. */
export function filtered(
  query: Query,
  { state, event, status, from, to }: Pick<DeliveryFilter, 'state' | 'event' | 'status' | 'from' | 'to'>,
  response: LastResponse | undefined,
): Query {
  let found = query
  if (state) found = found.where('state', '=', state)
  if (state === 'pending' || state === 'delivering') found = found.where(sql<boolean>`${sql.raw(UNSETTLED)}`)
  if (event) found = found.where('event', '=', event)
  if (from) found = found.where('id', '>=', floorOfUuidsAt(from.getTime()))
  if (to) found = found.where('id', '<', floorOfUuidsAt(to.getTime()))
  if (status === 'none') found = found.where('lastStatus', 'is', null).where('attemptCount', '>', 0)
  else if (status?.endsWith('xx')) {
    const first = Number(status[0]) * 100
    found = found.where('lastStatus', '>=', first).where('lastStatus', '<', first + 100)
  } else if (status) found = found.where('lastStatus', '=', Number(status))
  if (response) {
    found = found
      .where('lastStatus', 'is not distinct from', response.status)
      .where('lastError', 'is not distinct from', response.error)
      .where(
        sql<boolean>`coalesce((select md5(response_body) from multitenancy.webhook_attempts
          where delivery_id = webhook_deliveries.id and number = webhook_deliveries.attempt_count), '') = ${response.hash}`,
      )
  }
  const excludesSuccess = (status && !status.startsWith('2')) || (response && isFailure(response))
  return excludesSuccess ? found.where(sql<boolean>`${sql.raw(UNSUCCESSFUL)}`) : found
}

/** False also before the first attempt. */
const isFailure = ({ status, error }: LastResponse): boolean =>
  error !== null || (status !== null && (status < 200 || status >= 300))
