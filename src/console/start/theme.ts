/** Sets theme and height of rows before the first paint. A classic script: it runs before the page is drawn, and imports nothing. */
for (const name of ['theme', 'density']) {
  const value = localStorage.getItem(`tenantry-${name}`)
  if (value) document.documentElement.dataset[name] = value
}

export {}
