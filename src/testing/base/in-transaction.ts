/** Starts a transaction on a tenant's client, which acquires its connection. */
export async function inTransaction(client: { query(text: string): Promise<unknown> }): Promise<void> {
  await client.query('begin')
  await client.query('select 1')
}
