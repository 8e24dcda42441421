/** A client of a tenant takes a connection with the first statement of a transaction. */
export async function inTransaction(client: { query(text: string): Promise<unknown> }): Promise<void> {
  await client.query('begin')
  await client.query('select 1')
}
