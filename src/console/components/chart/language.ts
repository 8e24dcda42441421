/** uPlot formats numbers in the language of the browser when it is imported. Intl rejects some languages, such as `en-US@posix`. */
try {
  Intl.getCanonicalLocales(navigator.language)
} catch {
  Object.defineProperty(navigator, 'language', { value: 'en', configurable: true })
}

export {}
