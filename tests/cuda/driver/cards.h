// The cards of the machine, from the environment: what the driver and NVML say of them.
// FAKECUDA_CARDS: cards by PCI bus, "name|capability|GiB|GiB that others hold|slices" between semicolons.
#pragma once
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#define FAKE_MOST 16
typedef struct {
  char name[96], uuid[64], slice[64];  // slice: of MIG, the id of its first one
  int cc, number, slices;
  double gib, others;
} FakeCard;

static const char* fake_env(const char* name, const char* otherwise) {
  const char* v = getenv(name);
  return v && *v ? v : otherwise;
}

static int fake_cards(FakeCard* cards) {
  char all[4096], *rest = all, *one;
  const char* named = getenv("FAKECUDA_CARDS");
  int count = 0, many = atoi(fake_env("FAKECUDA_DEVICES", "1"));
  if (named && *named) {
    snprintf(all, sizeof all, "%s", named);
    while ((one = strsep(&rest, ";")) && count < FAKE_MOST) {
      FakeCard* card = &cards[count];
      memset(card, 0, sizeof *card);
      char* word = strsep(&one, "|");
      snprintf(card->name, sizeof card->name, "%s", word);
      card->cc = one ? atoi(strsep(&one, "|")) : 89;
      card->gib = one ? atof(strsep(&one, "|")) : 8;
      card->others = one ? atof(strsep(&one, "|")) : 0;
      card->slices = one ? atoi(strsep(&one, "|")) : 0;
      count++;
    }
  } else {
    for (; count < many && count < FAKE_MOST; count++) {
      FakeCard* card = &cards[count];
      memset(card, 0, sizeof *card);
      snprintf(card->name, sizeof card->name, "%s", fake_env("FAKECUDA_NAME", "NVIDIA GeForce RTX 4090"));
      card->cc = atoi(fake_env("FAKECUDA_CC", "89"));
      card->gib = atof(fake_env("FAKECUDA_GIB", "23.52"));
      card->others = atof(fake_env("FAKECUDA_OTHERS_GIB", "0"));
    }
  }
  for (int i = 0; i < count; i++) {
    cards[i].number = i;
    snprintf(cards[i].uuid, 64, "GPU-%08x-0707-0707-0707-070707070707", i + 0xa0);
    snprintf(cards[i].slice, 64, "MIG-%08x-0909-0909-0909-090909090909", i + 0xb0);
  }
  return count;
}

// What stands for speed: of unlike cards the one with the most memory is the fastest here.
static int fake_by_speed(const void* a, const void* b) {
  const FakeCard *x = (const FakeCard*)a, *y = (const FakeCard*)b;
  if (x->gib != y->gib) return x->gib > y->gib ? -1 : 1;
  return x->number - y->number;
}

// What CUDA shows to a program: by speed unless CUDA_DEVICE_ORDER is PCI_BUS_ID, and of CUDA_VISIBLE_DEVICES
// what comes before the first word that is invalid; nothing where a word is repeated.
static int fake_visible(FakeCard* shown) {
  FakeCard cards[FAKE_MOST];
  int count = fake_cards(cards), many = 0;
  const char* order = getenv("CUDA_DEVICE_ORDER");
  const char* named = getenv("CUDA_VISIBLE_DEVICES");
  if (!order || strcmp(order, "PCI_BUS_ID")) qsort(cards, count, sizeof *cards, fake_by_speed);
  if (!named) {
    memcpy(shown, cards, count * sizeof *cards);
    many = count;
  } else {
    char all[4096], *rest = all, *word;
    snprintf(all, sizeof all, "%s", named);
    while ((word = strsep(&rest, ",")) && many < FAKE_MOST) {
      int found = -1;
      while (*word == ' ') word++;
      if (!strncmp(word, "GPU-", 4)) {
        for (int i = 0; i < count; i++)
          if (!strncmp(cards[i].uuid, word, strlen(word))) found = i;
      } else if (!strncmp(word, "MIG-", 4)) {
        for (int i = 0; i < count; i++)
          if (cards[i].slices && !strcmp(cards[i].slice, word)) found = i;
      } else if (*word >= '0' && *word <= '9') {
        found = atoi(word);
      }
      if (found < 0 || found >= count) break;
      for (int i = 0; i < many; i++)
        if (shown[i].number == cards[found].number) return 0;
      shown[many++] = cards[found];
    }
  }
  for (int i = 0; i < many; i++)
    if (shown[i].slices) shown[i].gib /= shown[i].slices;
  return many;
}
