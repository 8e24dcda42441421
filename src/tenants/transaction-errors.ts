/** Misuse of a transaction, with the SQLSTATE that PostgreSQL has for it. */
export const endedBefore = () => new Error('a statement ended the transaction it ran in; that is for the handle to do')

export const transactionInProgress = () =>
  Object.assign(new Error('a transaction is in progress on this connection already'), { code: '25001' })
