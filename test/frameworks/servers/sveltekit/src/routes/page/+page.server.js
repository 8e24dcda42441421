import { application } from '../../../tenancy.js'

export async function load({ locals }) {
  const { tenancy } = await application()
  const { rows } = await locals.tenant.pool.query('select $1::text as id', [locals.tenant.id])
  return { text: `tenant ${rows[0].id} in the context of ${(await tenancy.current()).id}` }
}
