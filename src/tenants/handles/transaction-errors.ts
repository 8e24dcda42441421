/** Misuse of a transaction, with the SQLSTATE that PostgreSQL has for it. */
export const endedBefore = () =>
  Object.assign(new Error('a statement ended the transaction it ran in; that is for the handle to do'), {
    code: '2D000',
  })

/** AND CHAIN has begun the transaction that goes on, without the scope of the one before. */
export const chained = () =>
  Object.assign(new Error('a statement ended the transaction it ran in; AND CHAIN begins none that has a scope'), {
    code: '2D000',
  })

export const transactionInProgress = () =>
  Object.assign(new Error('a transaction is in progress on this connection already'), { code: '25001' })
